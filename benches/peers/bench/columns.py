"""The programs that are compared, and how each is had."""

import functools
import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent.parent
PROJECT = HERE.parent.parent
# What all others are told as a ratio to.
BASE = "raw"


@dataclass
class Column:
    """A program that does the work, and what it can do."""

    name: str
    prepare: Callable[[], list]
    can: set
    env: dict = field(default_factory=dict)
    # What DB names, around the path of a file or a directory.
    db: str = "{}"
    is_slow: bool = False
    command: list = field(default_factory=list)

    def installed(self):
        """Bytes of the program and of what it brings along."""
        program = Path(self.command[0])
        if program.name == "node":
            return size(Path(self.command[1]).parent)
        return size(program.parent.parent if program.name == "python" else program)


def size(path):
    """Bytes of a file, or of all files below a directory."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(it.stat().st_size for it in files if it.is_file() and not it.is_symlink())


@functools.cache
def built(directory, package):
    """Builds a package, and gives the directory of its programs."""
    manifest = ["--manifest-path", directory / "Cargo.toml"]
    subprocess.run(["cargo", "build", "--release", "--locked", *manifest, "--package", package], check=True)
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps", *manifest]
    metadata = subprocess.run(metadata, check=True, capture_output=True).stdout
    return Path(json.loads(metadata)["target_directory"]) / "release"


def rust(package, program=None):
    return lambda: [built(HERE, package) / (program or package)]


def environment(name, into):
    """Installs the packages of an environment of Python, and gives its interpreter."""
    wanted, venv = HERE / "python" / "requirements" / f"{name}.txt", into / "venvs" / name
    installed = venv / "requirements.txt"
    if not is_same(wanted, installed):
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        pip = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", wanted], check=True)
        shutil.copy(wanted, installed)
    return venv / "bin" / "python"


def python(name, into):
    """A program in Python, with an environment of its own."""

    def prepare():
        return [environment(name, into), HERE / "python" / f"{name.replace('-', '_')}_agent.py"]

    return prepare


def node(into):
    """The program in JavaScript, which is copied to where its packages are."""

    def prepare():
        wanted, folder = HERE / "node", into / "node"
        folder.mkdir(parents=True, exist_ok=True)
        installed = folder / "node_modules" / "installed.json"
        if not is_same(wanted / "package-lock.json", installed):
            shutil.copytree(wanted, folder, dirs_exist_ok=True)
            subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=folder, check=True)
            shutil.copy(wanted / "package-lock.json", installed)
        return ["node", shutil.copy(wanted / "vercel_ai_agent.mjs", folder)]

    return prepare


def is_same(wanted, installed):
    """Whether two files say the same."""
    return installed.exists() and installed.read_text() == wanted.read_text()


def known(ours, into):
    """All columns there are."""

    def client():
        return [ours.resolve() if ours else built(PROJECT, "loopwright-bench-client") / "loopwright-bench-client"]

    http, most = {"http"}, {"http", "stream", "fake"}
    into = into.resolve()
    return [
        Column(BASE, rust("peer-by-hand", "raw"), most),
        Column("loopwright", client, most | {"db"}),
        Column("loopwright-standard", client, most | {"db"}, env={"AGENT": "standard"}),
        Column("loopwright-files", client, {"db"}, db="files:{}"),
        Column("floor-tcp", rust("peer-by-hand", "floor"), http),
        Column("floor-reqwest", rust("peer-by-hand", "floor"), http, env={"FLOOR": "reqwest"}),
        Column("genai", rust("peer-genai"), {"http", "stream"}),
        Column("rig", rust("peer-rig"), most),
        Column("autoagents", rust("peer-autoagents"), http),
        Column("pydantic-ai", python("pydantic-ai", into), most, is_slow=True),
        Column("openai-agents", python("openai-agents", into), most | {"db"}, is_slow=True),
        Column("langgraph", python("langgraph", into), most | {"db"}, is_slow=True),
        Column("strands", python("strands", into), most, is_slow=True),
        Column("vercel-ai", node(into), most, is_slow=True),
    ]


def added(text):
    """A column from the command line."""
    name, command = text.split("=", 1)
    name, _, can = name.partition(":")
    can = set(can.split(",")) if can else {"http", "stream", "fake"}
    return Column(name, functools.partial(shlex.split, command), can)


def columns(arguments):
    """The columns that are asked for."""
    table = known(arguments.ours, arguments.into)
    if arguments.only:
        names = {BASE, *arguments.only.split(",")}
        if unknown := names - {it.name for it in table}:
            sys.exit(f"no column is called {', '.join(sorted(unknown))}")
        table = [it for it in table if it.name in names]
    return table + [added(it) for it in arguments.add]


def prepared(columns):
    """The columns that can be had here."""
    for column in columns:
        try:
            column.command = column.prepare()
            if not shutil.which(column.command[0]):
                raise FileNotFoundError(f"{column.command[0]} is not a program")
            yield column
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"left out: {column.name}: {error}", file=sys.stderr)
