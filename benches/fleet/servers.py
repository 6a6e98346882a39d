"""What the bench starts on this machine: PostgreSQL, Redis and the model. Each is ended by its process."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
NOBODY = 65_534
PATIENCE = 30


class Missing(Exception):
    """A program that is not installed."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_until(what, is_true, patience=PATIENCE):
    began = time.monotonic()
    while not is_true():
        if time.monotonic() - began > patience:
            raise RuntimeError(f"{what} did not happen within {patience} s")
        time.sleep(0.02)


def answers(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def stop(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Postgres:
    """A cluster of its own. All settings are defaults, except for the number of connections, so each commit waits for the disk."""

    def __init__(self, folder):
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda it: int(it.parent.parent.name))
        program = found[-1] if found else shutil.which("postgres")
        if not program or not shutil.which("psql"):
            raise Missing("PostgreSQL")
        self.bin, self.port, self.log = Path(program).parent, free_port(), folder / "postgres.log"
        data = folder / "postgres"
        data.mkdir()
        self.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        if self.user:
            os.chown(data, NOBODY, NOBODY)
        init = [self.bin / "initdb", "-D", data, "--auth=trust", "--username=bench", "--encoding=UTF8", "--locale=C"]
        subprocess.run(init, check=True, stdout=subprocess.DEVNULL, cwd=data, **self.user)
        serve = [self.bin / "postgres", "-D", data, "-k", data, "-c", f"port={self.port}", "-c", "listen_addresses=127.0.0.1"]
        serve += ["-c", "max_connections=300", "-c", "log_line_prefix=%p "]
        self.process = subprocess.Popen(serve, cwd=data, stdout=subprocess.DEVNULL, stderr=open(self.log, "wb"), **self.user)
        wait_until("the start of PostgreSQL", lambda: answers(self.port))
        wait_until("an answer of PostgreSQL", lambda: not self.psql("SELECT 1", check=False).returncode)

    def url(self, database):
        return f"postgres://bench@127.0.0.1:{self.port}/{database}"

    def psql(self, sql, database="postgres", check=True):
        command = ["psql", self.url(database), "-XAtq", "-v", "ON_ERROR_STOP=1"]
        done = subprocess.run(command, input=sql, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(done.stderr)
        return done

    def new_database(self, name):
        self.psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.psql(f"CREATE DATABASE {name}")
        return self.url(name)

    def commit_ms(self):
        """The time of a small durable transaction."""
        self.psql("CREATE TABLE IF NOT EXISTS floor (n BIGINT); INSERT INTO floor VALUES (0)")
        began, count = time.perf_counter(), 300
        self.psql("UPDATE floor SET n = n + 1;\n" * count)
        return (time.perf_counter() - began) / count * 1000


class Redis:
    """A server whose log is written to the disk before each answer, as PostgreSQL does."""

    def __init__(self, folder):
        program = shutil.which("redis-server") or shutil.which("valkey-server")
        if not program:
            raise Missing("Redis")
        self.port = free_port()
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "yes"]
        self.process = subprocess.Popen([program, *options, "--appendfsync", "always"], stdout=subprocess.DEVNULL)
        wait_until("the start of Redis", lambda: answers(self.port))
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def clear(self):
        with socket.create_connection(("127.0.0.1", self.port)) as client:
            client.sendall(b"FLUSHALL\r\n")
            client.recv(16)


class Model:
    """The scripted model."""

    def __init__(self):
        self.process = subprocess.Popen([HERE / "model"], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def request(self, method, path):
        request = urllib.request.Request(f"http://{self.address}{path}", method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()
