"""An agent that answers from the handbook and from tickets that anybody writes, with LangChain.

A mail that it wants to send after it read a ticket waits for a person.

    pip install "knowledge-worker[langchain]" langchain langchain-openai
    OPENAI_API_KEY=... KNOWLEDGE_APP=app:knowledge python examples/agents/langchain_agent.py "What is ticket 1?"
"""

import sys

from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from knowledge_worker import knowledge_tools
from knowledge_worker.tools import guard, langchain_tools


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


tools = langchain_tools(knowledge_tools(collections=["handbook", "tickets"]))
agent = create_agent("openai:gpt-5-mini", tools=[*tools, guard(send_mail)], checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "1"}}
state = agent.invoke({"messages": [("user", sys.argv[1])]}, thread)
while state.get("__interrupt__"):
    action = state["__interrupt__"][0].value["action_requests"][0]
    print(f"The agent wants {action['name']} {action['args']}")
    state = agent.invoke(Command(resume=input("Approve? ") == "yes"), thread)
print(state["messages"][-1].text)
