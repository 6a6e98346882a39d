"""What is measured, and how much of it."""

import sys
import time
from dataclasses import dataclass

from .measure import measure

# Seconds after which a column is not measured again at this point, nor at a longer one.
PATIENCE = 20
# Bytes of a tool result where the size of the conversation matters, and where it does not.
LONG, SHORT = 2048, 256


@dataclass
class Sizes:
    """How much is measured. Where there are two numbers, the second is for slow columns."""

    steps: tuple = (10, 50, 200)
    streamed: int = 50
    runs: tuple = (1000, 200)
    waiting: tuple = (1000, 300)
    wait: int = 2000
    in_process: tuple = (250, 1000, 5000)
    starts: int = 7
    persisted: tuple = (100, 500)


QUICK = Sizes((10, 50), 20, (200, 50), (200, 50), 1000, (50, 250), 3, (100,))


class Bench:
    """Measures columns in turn, so that what befalls the machine befalls all of them."""

    def __init__(self, columns, model, disk, rounds, sizes):
        self.columns, self.model, self.disk, self.rounds, self.sizes = columns, model, disk, rounds, sizes
        self.records = []

    def point(self, name, can, rounds=None, tired=None, **asked):
        """Measures all columns that can do it. Those that take too long are added to the tired ones."""
        spent, out = {}, set(tired or ())
        print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
        for number in range(rounds or self.rounds):
            for column in self.columns:
                if can not in column.can or column.name in out:
                    continue
                record = measure(column, self.model, self.disk, **asked)
                self.records.append({**record, "point": name, "round": number})
                spent[column.name] = spent.get(column.name, 0) + record["wall"]
                if "problem" in record or spent[column.name] > PATIENCE:
                    out.add(column.name)
                if tired is not None and ("problem" in record or record["wall"] > PATIENCE):
                    tired.add(column.name)

    def a(self):
        for steps in (0, *self.sizes.steps):
            self.point(f"run:{steps}", "http", STEPS=steps, PAD=LONG)
        for steps in (0, self.sizes.streamed):
            self.point(f"stream:{steps}", "stream", STEPS=steps, PAD=LONG, STREAM=1)

    def b(self):
        self.point("one", "http", STEPS=1, PAD=SHORT)
        self.point("many", "http", PAD=SHORT, CONC=64, RUNS=self.sizes.runs)
        waiting = self.sizes.waiting
        self.point("waiting", "http", STEPS=1, PAD=SHORT, LAT=self.sizes.wait, RUNS=waiting, CONC=waiting)

    def c(self):
        tired = set()
        for steps in (0, *self.sizes.in_process):
            self.point(f"fake:{steps}", "fake", tired=tired, STEPS=steps, PAD=0, MODE="fake")

    def d(self):
        self.point("start", "http", rounds=max(self.rounds, self.sizes.starts), STEPS=0)

    def e(self):
        for steps in self.sizes.persisted:
            asked = dict(STEPS=steps, PAD=LONG, MODE="fake")
            self.point(f"unkept:{steps}", "db", **asked)
            self.point(f"kept:{steps}", "db", keep=True, **asked)
            self.point(f"resumed:{steps}", "db", keep=True, RESUME=1, **asked)
