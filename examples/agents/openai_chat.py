"""The same over Chat Completions, which many compatible servers speak: set OPENAI_BASE_URL to one of them.

OPENAI_API_KEY=... KNOWLEDGE_APP=app:knowledge python examples/agents/openai_chat.py "How long do refunds take?"
"""

import sys

from openai import OpenAI

from knowledge_worker import knowledge_tools
from knowledge_worker.tools import openai_tools

client, run = OpenAI(), openai_tools(knowledge_tools(collections=["handbook"]))
messages = [{"role": "user", "content": sys.argv[1]}]
while True:
    message = client.chat.completions.create(model="gpt-5-mini", messages=messages, tools=run.chat).choices[0].message
    answers = run.answer_chat(message)
    if not answers:
        break
    messages += [message, *answers]
print(message.content)
