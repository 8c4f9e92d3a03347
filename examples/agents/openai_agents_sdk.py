"""An agent that answers from the handbook and from tickets that anybody writes, with the OpenAI Agents SDK.

A mail that it wants to send after it read a ticket waits for a person.

    pip install "knowledge-worker[openai-agents]"
    OPENAI_API_KEY=... KNOWLEDGE_APP=app:knowledge python examples/agents/openai_agents_sdk.py "What is ticket 1?"
"""

import asyncio
import sys

from agents import Agent, Runner, function_tool

from knowledge_worker import knowledge_tools
from knowledge_worker.tools import guard, openai_agents_tools


@function_tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


async def main() -> None:
    tools = openai_agents_tools(knowledge_tools(collections=["handbook", "tickets"]))
    agent = Agent(name="clerk", model="gpt-5-mini", tools=[*tools, guard(send_mail)])
    result = await Runner.run(agent, sys.argv[1], context={})
    while result.interruptions:
        state = result.to_state()
        for call in result.interruptions:
            print(f"The agent wants {call.name} {call.arguments}")
            state.approve(call) if input("Approve? ") == "yes" else state.reject(call)
        result = await Runner.run(agent, state)
    print(result.final_output)


asyncio.run(main())
