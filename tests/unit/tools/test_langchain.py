"""LangChain and LangGraph with a scripted chat model: tools, taint in the state, approvals across a restart."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime, tools_condition
from langgraph.types import Command

from knowledge_worker.tools import KnowledgeTools, guard, langchain_tools

if TYPE_CHECKING:
    from .conftest import FakeKnowledge

Make = Callable[..., KnowledgeTools]
THREAD: Any = {"configurable": {"thread_id": "t"}}


class Scripted(BaseChatModel):
    """Says what it was given, one answer after the other."""

    answers: list[AIMessage]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answers.pop(0))])


class Mail:
    def __init__(self) -> None:
        self.sent: list[str] = []

    def tool(self) -> BaseTool:
        @tool
        def send_mail(to: str, text: str = "hello") -> str:
            """Send a mail."""
            self.sent.append(to)
            return f"sent to {to}: {text}"

        return send_mail


def search_in(*collections: str, call_id: str = "c") -> AIMessage:
    return AIMessage(
        "",
        tool_calls=[
            {"name": "knowledge_search", "args": {"query": "refunds", "collection": name}, "id": f"{call_id}{number}"}
            for number, name in enumerate(collections)
        ],
    )


def mail(call_id: str = "m1") -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "send_mail", "args": {"to": "eve@example.com"}, "id": call_id}])


def agent_with(answers: list[AIMessage], *tools: Any, saver: Any = None) -> Any:
    return create_agent(Scripted(answers=answers), tools=list(tools), checkpointer=saver)


def node_graph(answers: list[AIMessage], *tools: Any, saver: Any = None) -> Any:
    """The graph that people write by hand, with one node for all calls of a message."""
    model = Scripted(answers=answers)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(list(tools)))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=saver)


def go(graph: Any, given: Any = None, **options: Any) -> Any:
    return graph.invoke(given or {"messages": [("user", "go")]}, THREAD, **options)


def answers(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("build", [agent_with, node_graph])
def test_a_model_searches_and_reads(make_tools: Make, knowledge: FakeKnowledge, build: Any) -> None:
    knowledge.answers("Refunds take 14 days.")
    knowledge.put("handbook", "d1.md", "# Refunds\n\nRefunds take 14 days.")
    read = {"name": "knowledge_read", "args": {"collection": "handbook", "document": "d1.md"}, "id": "c9"}
    script = [search_in("handbook"), AIMessage("", tool_calls=[read]), AIMessage("14 days.")]
    graph = build(script, *langchain_tools(make_tools()))
    state = asyncio.run(graph.ainvoke({"messages": [("user", "How long?")]}, THREAD))
    assert state["messages"][-1].content == "14 days."
    found, text = [json.loads(message.content) for message in answers(state)]
    assert found["matches"][0]["text"] == "Refunds take 14 days."
    assert text["text"].startswith("# Refunds")


def test_the_model_gets_the_schema_and_the_artifact_stays_here(make_tools: Make, knowledge: FakeKnowledge) -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    search = langchain_tools(make_tools("tickets"))[0]
    function = convert_to_openai_tool(search)["function"]
    assert function["parameters"]["properties"].keys() == {"query", "collection", "topK"}
    message = search.invoke({"type": "tool_call", "name": search.name, "args": {"query": "x"}, "id": "1"})
    assert message.artifact == {"knowledge_taint": ["tool:knowledge_search"]}
    assert json.loads(message.content)["tainted"] is True
    assert json.loads(search.invoke({"query": "x", "topK": 99}))["error"]["code"] == "invalid_input"


@pytest.mark.parametrize("build", [agent_with, node_graph])
def test_a_clean_run_calls_a_guarded_tool(make_tools: Make, knowledge: FakeKnowledge, build: Any) -> None:
    knowledge.answers("fine")
    outbox = Mail()
    tools = langchain_tools(make_tools("handbook", "tickets"))
    state = go(build([search_in("handbook"), mail(), AIMessage("done")], *tools, guard(outbox.tool())))
    assert outbox.sent == ["eve@example.com"]
    assert answers(state)[1].content == "sent to eve@example.com: hello"
    assert answers(state)[1].tool_call_id == "m1"


@pytest.mark.parametrize(("decision", "sent"), [(True, 1), ({"decisions": [{"type": "approve"}]}, 1), (False, 0),
                                                ({"decisions": [{"type": "reject"}]}, 0), ("approve", 0)])  # fmt: skip
@pytest.mark.parametrize("build", [agent_with, node_graph])
def test_a_tainted_run_waits_for_approval_across_a_restart_and_does_not_search_again(
    make_tools: Make, knowledge: FakeKnowledge, build: Any, decision: Any, sent: int
) -> None:
    """Case 41; without matches, which taints as well."""
    outbox, saver = Mail(), InMemorySaver()
    tools = langchain_tools(make_tools("tickets"))
    state = go(build([search_in("tickets"), mail()], *tools, guard(outbox.tool()), saver=saver))
    (question,) = state["__interrupt__"]
    assert question.value["action_requests"][0]["name"] == "send_mail"
    assert question.value["action_requests"][0]["args"]["to"] == "eve@example.com"
    assert outbox.sent == []

    stored = pickle.dumps((dict(saver.storage), dict(saver.writes), dict(saver.blobs)))
    restored = InMemorySaver()
    for part, kept in zip((restored.storage, restored.writes, restored.blobs), pickle.loads(stored), strict=True):
        part.update(kept)
    graph = build([mail("m2")], *langchain_tools(make_tools("tickets")), guard(outbox.tool()), saver=restored)
    again = go(graph, Command(resume=decision))
    assert len(outbox.sent) == sent
    assert len(knowledge.searches) == 1
    assert [message.tool_call_id for message in answers(again)] == ["c0", "m1"]
    if not sent:
        assert answers(again)[1].content.startswith("A person did not approve")
    # The taint came back with the thread, so the next call waits as well.
    assert len(again["__interrupt__"]) == 1


@pytest.mark.parametrize("build", [agent_with, node_graph])
def test_a_search_beside_the_waiting_call_is_not_searched_again(
    make_tools: Make, knowledge: FakeKnowledge, build: Any
) -> None:
    outbox, saver = Mail(), InMemorySaver()
    both = AIMessage("", tool_calls=[*search_in("tickets", call_id="d").tool_calls, *mail().tool_calls])
    script = [search_in("tickets"), both, AIMessage("done")]
    graph = build(script, *langchain_tools(make_tools("tickets")), guard(outbox.tool()), saver=saver)
    assert len(go(graph)["__interrupt__"]) == 1
    state = go(graph, Command(resume=True))
    assert (len(outbox.sent), len(knowledge.searches)) == (1, 2)
    assert [message.tool_call_id for message in answers(state)] == ["c0", "d0", "m1"]


def test_a_guard_may_refuse_and_refuses_where_nothing_can_wait(make_tools: Make, knowledge: FakeKnowledge) -> None:
    outbox = Mail()
    tools = langchain_tools(make_tools("tickets"))
    refusing = guard(outbox.tool(), when_tainted="refuse")
    state = go(agent_with([search_in("tickets"), mail(), AIMessage("ok")], *tools, refusing))
    assert answers(state)[1].content.startswith("Refused: ")
    outside = guard(outbox.tool()).invoke({"to": "eve@example.com"})
    assert outside.startswith("Refused: ")
    assert outbox.sent == []


def test_a_guarded_tool_keeps_what_the_graph_injects(make_tools: Make) -> None:
    got: list[Any] = []

    @tool
    def with_state(word: str, state: Annotated[Any, InjectedState]) -> str:
        """Act."""
        got.append((word, len(state["messages"])))
        return "done"

    @tool
    def with_runtime(word: str, runtime: ToolRuntime) -> str:
        """Act."""
        got.append((word, runtime.tool_call_id))
        return "done"

    for one in (with_state, with_runtime):
        call = AIMessage("", tool_calls=[{"name": one.name, "args": {"word": "w"}, "id": "a1"}])
        state = go(agent_with([call, AIMessage("ok")], guard(one)))
        assert answers(state)[0].content == "done"
    assert got == [("w", 2), ("w", "a1")]


def test_messages_whose_artifact_got_lost_still_taint(make_tools: Make, knowledge: FakeKnowledge) -> None:
    state = go(agent_with([search_in("tickets"), AIMessage("ok")], *langchain_tools(make_tools("tickets"))))
    for message in answers(state):
        message.artifact = None
    outbox = Mail()
    refusing = guard(outbox.tool(), when_tainted="refuse")
    go(agent_with([mail(), AIMessage("ok")], refusing), {"messages": [*state["messages"], ("user", "mail")]})
    assert outbox.sent == []


@pytest.mark.parametrize("build", [agent_with, node_graph])
def test_the_same_holds_for_asynchronous_graphs(make_tools: Make, knowledge: FakeKnowledge, build: Any) -> None:
    outbox, saver = Mail(), InMemorySaver()
    tools = langchain_tools(make_tools("tickets"))
    both = AIMessage("", tool_calls=[*search_in("tickets", call_id="d").tool_calls, *mail().tool_calls])
    graph = build([search_in("tickets"), both, AIMessage("ok")], *tools, guard(outbox.tool()), saver=saver)

    async def run() -> Any:
        waiting = await graph.ainvoke({"messages": [("user", "go")]}, THREAD)
        assert len(waiting["__interrupt__"]) == 1
        return await graph.ainvoke(Command(resume=True), THREAD)

    assert asyncio.run(run())["messages"][-1].content == "ok"
    assert (len(outbox.sent), len(knowledge.searches)) == (1, 2)
