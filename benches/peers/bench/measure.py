"""One piece of work, done by one column: what it took, and whether it was done."""

import http.client
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from .columns import HERE, built, size

# What the environment asks a program for, unless something else is wanted.
WORK = dict(STEPS=5, PAR=1, PAD=100, RUNS=1, CONC=1, STREAM=0, LAT=0, MODE="http")
# Seconds after which a run is stopped.
TIMEOUT = 300


class Model:
    """The model that all of them talk to."""

    def __init__(self):
        program = built(HERE, "peer-model") / "peer-model"
        self._process = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
        self.address = self._process.stdout.readline().strip()
        # Stays open, so that it is not among the connections that are counted.
        self._connection = http.client.HTTPConnection(self.address)

    def ask(self, path):
        self._connection.request("POST", path)
        return json.loads(self._connection.getresponse().read())

    def close(self):
        self._process.kill()
        self._process.wait()


def await_end(process, timeout):
    """Waits for a process. Gives how it ended, what it used, its peak of memory in KB, and the bytes that it wrote.

    The kernel's own figure of the peak is not below what this program has, so it is read while it lasts.
    """
    began, peak = time.monotonic(), 0
    while True:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            peak = max([peak, *(int(it.split()[1]) for it in lines if it.startswith("VmHWM"))])
        except OSError:
            pass
        has_ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        took = time.monotonic() - began
        if has_ended:
            lines = Path(f"/proc/{process.pid}/io").read_text().splitlines()
            wrote = next(int(it.split()[1]) for it in lines if it.startswith("wchar:"))
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage, peak or usage.ru_maxrss, wrote
        if took > timeout:
            process.kill()
        time.sleep(0.0005 if took < 2 else 0.01)


def measure(column, model, disk, keep=False, timeout=TIMEOUT, **asked):
    """Has a column do some work, and gives what it took, or what was wrong."""
    work = {**WORK, **{key: it[column.is_slow] if isinstance(it, tuple) else it for key, it in asked.items()}}
    scratch = tempfile.TemporaryFile
    with tempfile.TemporaryDirectory(dir=disk) as place, scratch() as out, scratch() as err:
        kept = {"DB": column.db.format(Path(place) / "kept")} if keep else {}
        env = {**column.env, **work, **kept, "BASE_URL": f"http://{model.address}/v1", "NO_COLOR": 1}
        env = {**os.environ, **{key: str(it) for key, it in env.items()}}
        model.ask("/reset")
        began = time.monotonic_ns()
        process = subprocess.Popen(column.command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        code, usage, peak, wrote = await_end(process, timeout)
        wall = (time.monotonic_ns() - began) / 1e9
        seen = model.ask("/stats")
        out.seek(0)
        err.seek(0)
        said, errors = out.read().decode(errors="replace"), err.read().decode(errors="replace")
        stored = size(Path(place))
    record = dict(column=column.name, runs=work["RUNS"], cpu=usage.ru_utime + usage.ru_stime, wall=wall, peak=peak)
    record |= dict(written=wrote, blocks=usage.ru_oublock * 512, stored=stored)
    record |= dict(bytes=seen["bytes"], connections=seen["connections"])
    if seen["first_ns"]:
        record["first"] = (seen["first_ns"] - began) / 1e9
    if code:
        record["problem"] = f"stopped after {timeout} s" if wall > timeout else f"exit {code}: {errors.strip()[-200:]}"
        return record
    try:
        done = json.loads(said.strip().splitlines()[-1])
    except (IndexError, ValueError):
        done = {}
    record["resume"] = done.get("resume_ms")
    if problem := wrong(work, done, seen):
        record["problem"] = problem
    return record


def wrong(work, done, seen):
    """What a column did other than it was asked to."""
    steps, runs, calls = work["STEPS"], work["RUNS"], work["RUNS"] * work["STEPS"] * work["PAR"]
    if done.get("final") != f"DONE steps={steps}":
        return f"the last words are {done.get('final')!r}"
    if done.get("tool_calls") != calls:
        return f"{done.get('tool_calls')} calls instead of {calls}"
    if work["MODE"] != "http":
        return None
    if seen["requests"] != runs * (steps + 1):
        return f"{seen['requests']} requests instead of {runs * (steps + 1)}"
    # The results of tools at least, again in each request.
    if seen["bytes"] < calls * work["PAD"] * (steps + 1) / 2:
        return f"{seen['bytes']} bytes are less than the conversation"
    return None


def check(column, model, disk):
    """Whether a column does every kind of work that it can do."""
    kinds = {"http": [{}, {"PAR": 3}, {"RUNS": 20, "CONC": 8}], "stream": [{"STREAM": 1}]}
    kinds |= {"fake": [{"MODE": "fake", "STEPS": 50}], "db": [{"MODE": "fake", "keep": True, "RESUME": 1}]}
    for kind in [it for can, kinds in kinds.items() if can in column.can for it in kinds]:
        if problem := measure(column, model, disk, timeout=60, **kind).get("problem"):
            return f"{kind}: {problem}"
    return None
