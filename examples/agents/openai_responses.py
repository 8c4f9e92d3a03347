"""An agent that answers from the handbook, with the plain OpenAI client.

OPENAI_API_KEY=... KNOWLEDGE_APP=app:knowledge python examples/agents/openai_responses.py "How long do refunds take?"
"""

import sys

from openai import OpenAI

from knowledge_worker import knowledge_tools
from knowledge_worker.tools import openai_tools

client, run = OpenAI(), openai_tools(knowledge_tools(collections=["handbook"]))
items = [{"role": "user", "content": sys.argv[1]}]
while True:
    response = client.responses.create(model="gpt-5-mini", input=items, tools=run.responses)
    answers = run.answer_responses(response.output)
    if not answers:
        break
    items += [*response.output, *answers]
print(response.output_text)
