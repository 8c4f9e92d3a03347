"""An agent that answers from the handbook and from tickets that anybody writes, with Pydantic AI.

A mail that it wants to send after it read a ticket waits for a person.

    pip install "knowledge-worker[pydantic-ai]"
    OPENAI_API_KEY=... KNOWLEDGE_APP=app:knowledge python examples/agents/pydantic_ai_agent.py "What is ticket 1?"
"""

import asyncio
import sys

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool

from knowledge_worker import knowledge_tools
from knowledge_worker.tools import guard, pydantic_ai_tools


def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


async def main() -> None:
    tools = pydantic_ai_tools(knowledge_tools(collections=["handbook", "tickets"]))
    agent = Agent("openai:gpt-5-mini", tools=[*tools, guard(Tool(send_mail))], output_type=[str, DeferredToolRequests])
    result = await agent.run(sys.argv[1])
    while isinstance(result.output, DeferredToolRequests):
        decided = DeferredToolResults()
        for call in result.output.approvals:
            print(f"The agent wants {call.tool_name} {call.args}")
            decided.approvals[call.tool_call_id] = input("Approve? ") == "yes"
        result = await agent.run(message_history=result.all_messages(), deferred_tool_results=decided)
    print(result.output)


asyncio.run(main())
