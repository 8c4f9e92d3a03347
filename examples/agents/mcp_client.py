"""What an MCP client sees: it starts the server over stdio, lists its tools and calls one.

pip install "knowledge-worker[mcp]"
KNOWLEDGE_APP=app:knowledge python examples/agents/mcp_client.py "How long do refunds take?"
"""

import asyncio
import os
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

SERVER = StdioServerParameters(
    command="knowledge-worker", args=["mcp", "--collection", "handbook"], env=dict(os.environ)
)


async def main() -> None:
    async with Client(stdio_client(SERVER)) as client:
        for tool in (await client.list_tools()).tools:
            print(f"tool {tool.name}: {(tool.description or '').splitlines()[0]}")
        for resource in (await client.list_resources()).resources:
            print(f"resource {resource.uri}: {resource.title or resource.name}")
        found = await client.call_tool("knowledge_search", {"query": sys.argv[1], "topK": 1})
        print(found.content[0].text)
        print(found.meta)


asyncio.run(main())
