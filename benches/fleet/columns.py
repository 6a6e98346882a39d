"""The programs that are compared: each submits conversations, and starts a worker."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def environment(into):
    """Installs the peers, and returns their interpreter; `None` if that is impossible."""
    wanted, venv = HERE / "peers/requirements.txt", into / "venv"
    installed = venv / "requirements.txt"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        try:
            subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
            pip = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "--requirement", wanted], check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"the peers are left out: {error}", file=sys.stderr)
            return None
        shutil.copy(wanted, installed)
    return venv / "bin/python"


class Ours:
    name, needs_redis = "loopwright", False

    def __init__(self, program):
        self.program = program

    def prepared(self, servers):
        """A new store, and the environment of commands."""
        home = servers.folder / "home"
        home.mkdir(exist_ok=True)
        self.url = servers.postgres.new_database("ours")
        self.cwd = servers.folder / "work"
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "LOOPWRIGHT_STORE": self.url,
            "LOOPWRIGHT_MODEL": "openai-compatible/script",
            "OPENAI_COMPATIBLE_BASE_URL": f"http://{servers.model.address}/v1",
        }

    def submit(self, count, steps):
        lines = f'{{"prompt":"STEPS={steps} Read the note."}}\n' * count
        command = [self.program, "submit", "--bulk", "-", "--bare"]
        subprocess.run(command, input=lines, text=True, check=True, cwd=self.cwd, env=self.environment, stdout=subprocess.DEVNULL)

    def worker(self, at_once=1, log=subprocess.DEVNULL):
        command = [self.program, "worker", "--bare", "--no-stream", "--tools", "Read", "--max-steps", "1000000"]
        command += ["--concurrency", str(at_once)]
        return subprocess.Popen(command, cwd=self.cwd, env=self.environment, stdout=log, stderr=log)


class Peer:
    def __init__(self, name, needs_redis, python):
        self.name, self.needs_redis, self.python = name, needs_redis, python

    def prepared(self, servers):
        url = servers.postgres.new_database("peer")
        self.cwd = servers.folder / "work"
        self.environment = os.environ | {"DATABASE": url, "MODEL": servers.model.address, "PYTHONPATH": str(HERE / "peers")}
        self.environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
        if self.needs_redis:
            servers.redis.clear()
            self.environment["REDIS"] = servers.redis.url
        if self.name == "dbos":
            # The tables are created once, by its own command.
            command = [self.python.parent / "dbos", "migrate", "--sys-db-url", url.replace("postgres://", "postgresql://", 1)]
            subprocess.run(command, check=True, cwd=self.cwd, capture_output=True)

    def command(self, *arguments):
        return [self.python, HERE / "peers" / f"{self.name}_peer.py", *map(str, arguments)]

    def submit(self, count, steps):
        subprocess.run(self.command("submit", count, steps), check=True, cwd=self.cwd, env=self.environment)

    def worker(self, log=subprocess.DEVNULL):
        return subprocess.Popen(self.command("worker"), cwd=self.cwd, env=self.environment, stdout=log, stderr=log)


def columns(program, python, names):
    """The columns with these names that can be run."""
    made = [Ours(program)]
    if python:
        made += [Peer("dbos", False, python), Peer("celery", True, python), Peer("rq", True, python)]
    return [it for it in made if it.name in names]
