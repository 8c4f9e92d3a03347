"""An HTTP server that answers as OpenAI's Responses and Chat Completions APIs do, from a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class ScriptedOpenAI:
    """Says what it was given, one answer after the other, and remembers what it was sent; a context manager.

    Args:
        answers: each is a text, or a mapping of tool names to their arguments.

    Attributes:
        requests: the bodies, in order.
    """

    def __init__(self, *answers: str | Mapping[str, Any]) -> None:
        self.answers = list(answers)
        self.requests: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def base_url(self) -> str:
        """What a client is given as its ``base_url``."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The body of the next answer, in the form of the path."""
        self.requests.append(body)
        said = self.answers.pop(0)
        number = len(self.requests)
        calls = [] if isinstance(said, str) else list(said.items())
        if path.endswith("/responses"):
            return _response(said if isinstance(said, str) else None, calls, number)
        return _completion(said if isinstance(said, str) else None, calls, number)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                content = json.dumps(scripted.answer(self.path, body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
                pass

        return Handler


def _response(text: str | None, calls: list[tuple[str, Any]], number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = [
        {
            "type": "function_call",
            "id": f"fc_{number}_{at}",
            "call_id": f"call_{number}_{at}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for at, (name, arguments) in enumerate(calls)
    ]
    if text is not None:
        content = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
        output.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
        )
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "scripted",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _completion(text: str | None, calls: list[tuple[str, Any]], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{number}_{at}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for at, (name, arguments) in enumerate(calls)
        ]
    return {
        "id": f"chatcmpl_{number}",
        "object": "chat.completion",
        "created": 0,
        "model": "scripted",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
