"""What every program written in Python shares: the work it is given, and how it tells what it did."""

import asyncio
import json
import os

BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:18080/v1")
KEY = "sk-mock"
STEPS = int(os.environ.get("STEPS", "10"))
PAR = int(os.environ.get("PAR", "1"))
PAD = int(os.environ.get("PAD", "0"))
RUNS = int(os.environ.get("RUNS", "1"))
CONC = int(os.environ.get("CONC", "1"))
LAT = int(os.environ.get("LAT", "0"))
STREAMS = os.environ.get("STREAM") == "1"
IS_FAKE = os.environ.get("MODE") == "fake"
DB = os.environ.get("DB")
RESUMES = os.environ.get("RESUME") == "1"

SYSTEM = "You are a calculator agent. Use the tools you are given."
PROMPT = f"STEPS={STEPS} PAR={PAR} PAD={PAD} LAT={LAT} Call the add tool until you are told to stop."
FAREWELL = f"DONE steps={STEPS}"
# Seconds after which a client gives an answer up: never here.
PATIENCE = 600

_LINE = "The quick brown fox jumps over the lazy dog, line 0042.\n"
_PADDING = (_LINE * (PAD // len(_LINE) + 1))[:PAD]
_calls = 0


def add(a, b):
    """Does a call of the tool, and counts it."""
    global _calls
    _calls += 1
    return f"{a + b}{_PADDING}"


class Script:
    """What a model in process says: one call in each step, as its id and its arguments."""

    def __init__(self):
        self._step = 0

    def next(self):
        """The next call, or nothing when all steps are done."""
        step, self._step = self._step, self._step + 1
        return None if step >= STEPS else (f"call_{step}_0", {"a": step, "b": 0})


def drive(run, resume=None):
    """Does the work with what does one run of it and gives its last words, and prints what it came to.

    What resumes takes the session up again, and gives the milliseconds that it took.
    """

    async def one_after_another(left):
        text = ""
        for _ in left:
            text = await run()
        return text

    async def main():
        # All of them take from the same iterator.
        left = iter(range(RUNS))
        texts = await asyncio.gather(*(one_after_another(left) for _ in range(min(CONC, RUNS))))
        done = {"final": next(filter(None, texts), ""), "tool_calls": _calls}
        if DB and RESUMES and resume:
            done["resume_ms"] = await resume()
        return done

    print(json.dumps(asyncio.run(main())))
