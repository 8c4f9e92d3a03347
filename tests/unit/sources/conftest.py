"""A Git repository to read from, and a Git server that wants a password."""

from __future__ import annotations

import base64
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class Repository:
    """A repository in a directory of its own, with commits made by the git command."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.run("init", "--quiet", "--initial-branch=main")

    def run(self, *arguments: str) -> str:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "protocol.file.allow=always"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.path, env=environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def write(self, files: dict[str, str | bytes]) -> None:
        for path, content in files.items():
            file = self.path / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, files: dict[str, str | bytes] | None = None) -> str:
        self.write(files or {})
        self.run("add", "--all")
        self.run("commit", "--quiet", "--allow-empty", "--message=change")
        return self.run("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "origin")


@dataclass
class GitServer:
    """What a client needs to know, and what it asked."""

    port: int
    requests: list[str] = field(default_factory=list)


@pytest.fixture
def git_server(tmp_path: Path) -> Iterator[GitServer]:
    """Serves the repositories below ``tmp_path`` over HTTP to the user ``reader`` with the password ``pass-w0rd``."""
    wanted = "Basic " + base64.b64encode(b"reader:pass-w0rd").decode()
    backend = Path(subprocess.run(["git", "--exec-path"], check=True, capture_output=True, text=True).stdout.strip())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Authorization") != wanted:
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            path, _, query = self.path.partition("?")
            server.requests.append(path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = subprocess.run(
                [backend / "git-http-backend"],
                input=body,
                capture_output=True,
                check=True,
                env={
                    "PATH": os.environ["PATH"],
                    "GIT_PROJECT_ROOT": str(tmp_path),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "GIT_CONFIG_GLOBAL": os.devnull,
                    "REQUEST_METHOD": self.command,
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                    "REMOTE_USER": "reader",
                },
            ).stdout
            head, _, content = answer.partition(b"\r\n\r\n")
            headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
            self.send_response(int(headers.pop("Status", "200").split()[0]))
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it is called with
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = GitServer(port=httpd.server_port)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    yield server
    httpd.shutdown()
    thread.join()
    httpd.server_close()


@dataclass
class GitRedirect:
    """A server that sends callers elsewhere once they showed their password.

    Attributes:
        location: where to.
        asked: the kind of ``Authorization`` of the requests that it redirected.
        elsewhere: the header ``Authorization`` of each request that came to the other address.
    """

    port: int
    location: str
    asked: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


@pytest.fixture
def git_redirect() -> Iterator[GitRedirect]:
    class Quiet(BaseHTTPRequestHandler):
        def answer(self, status: int, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "0"}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it is called with
            pass

    class Elsewhere(Quiet):
        def do_GET(self) -> None:
            redirect.elsewhere.append(self.headers.get("Authorization", ""))
            self.answer(401, WWW_Authenticate='Basic realm="other"')

    class Redirecting(Quiet):
        def do_GET(self) -> None:
            given = self.headers.get("Authorization", "")
            if not given:
                self.answer(401, WWW_Authenticate='Basic realm="git"')
                return
            redirect.asked.append(given.partition(" ")[0])
            self.answer(302, Location=redirect.location)

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for handler in (Redirecting, Elsewhere)]
    path = "origin/.git/info/refs?service=git-upload-pack"
    redirect = GitRedirect(servers[0].server_port, f"http://localhost:{servers[1].server_port}/{path}")
    threads = [threading.Thread(target=server.serve_forever, args=(0.05,)) for server in servers]
    for thread in threads:
        thread.start()
    yield redirect
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()
