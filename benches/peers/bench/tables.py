"""What was measured, as tables."""

import math
import statistics

from .columns import BASE
from .suites import LONG


def median(values):
    values = [it for it in values if it is not None]
    return statistics.median(values) if values else None


def pairwise(values, base):
    """The median of the ratios of what was measured in the same round, where there was something to measure."""
    return median(values[it] / base[it] for it in values if values[it] > 0 and base.get(it, 0) > 0)


def exponent(points):
    """With which power of its size something grows, from two sizes and what they took."""
    (x, fx), (y, fy) = points
    return math.log(fy / fx) / math.log(y / x) if fx and fy and fx > 0 and fy > 0 else None


def figure(value, digits=1, of=1):
    if value is None:
        return "–"
    if value < 0:
        return "<noise"
    value /= of
    return f"{value:,.0f}" if value >= 100 else f"{value:.{digits}f}"


def table(title, head, rows):
    print(f"\n### {title}\n\n| {' | '.join(head)} |\n|---|{'--:|' * (len(head) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


class Tables:
    """What was measured, as Markdown."""

    def __init__(self, records, sizes, installed):
        self._records, self._sizes, self._installed = records, sizes, installed

    def _series(self, point, column, key, less=None, each=False):
        """A figure of each round, less its median at another point, for each run if so."""
        base = (median(self._series(less, column, key).values()) or 0) if less else 0
        found = (it for it in self._records if (it["point"], it["column"]) == (point, column))
        found = [it for it in found if "problem" not in it and it.get(key) is not None]
        return {it["round"]: (it[key] - base) / (it["runs"] if each else 1) for it in found}

    def _cells(self, point, column, key, of, digits=1, **how):
        """A figure and its ratio."""
        values = self._series(point, column, key, **how)
        base = self._series(point, BASE, key, **how)
        return [figure(median(values.values()), digits, of), figure(pairwise(values, base), 2)]

    def _figure(self, point, column, key, of, digits=1, **how):
        return figure(median(self._series(point, column, key, **how).values()), digits, of)

    def _columns(self, point):
        return list(dict.fromkeys(it["column"] for it in self._records if it["point"] == point))

    def _growth(self, name, sizes, column):
        took = (median(self._series(f"{name}:{it}", column, "cpu", less=f"{name}:0").values()) for it in sizes)
        return figure(exponent(list(zip(sizes, took))), 2)

    def a(self):
        steps, last = self._sizes.steps, f"run:{self._sizes.steps[-1]}"
        head = ["column", *(it for n in steps for it in (f"CPU ms, {n} steps", "×"))]
        head += [f"growth, {steps[-2]} to {steps[-1]}", f"wall ms, {steps[-1]} steps", "×", "MB sent", "connections"]
        rows = [
            [name, *(it for n in steps for it in self._cells(f"run:{n}", name, "cpu", 1e-3))]
            + [self._growth("run", steps[-2:], name), *self._cells(last, name, "wall", 1e-3)]
            + [self._figure(last, name, "bytes", 1e6), self._figure(last, name, "connections", 1, 0)]
            for name in self._columns("run:0")
        ]
        table(f"a. One run, {LONG} bytes in each tool result and each answer", head, rows)
        point = f"stream:{self._sizes.streamed}"
        cells = (
            [name, *self._cells(point, name, "cpu", 1e-3), *self._cells(point, name, "wall", 1e-3)]
            for name in self._columns(point)
        )
        head = ["column", "CPU ms", "×", "wall ms", "×"]
        table(f"a. The same streamed, {self._sizes.streamed} steps", head, cells)

    def b(self):
        (runs, few), (waiting, some) = self._sizes.runs, self._sizes.waiting
        head = ["column", "CPU ms of a run", "×", "wall ms of a run", "×", "peak MB"]
        head += ["KB of a waiting agent", "×", "peak MB, all waiting"]
        rows = [
            [name, *self._cells("many", name, "cpu", 1e-3, 2, less="one", each=True)]
            + self._cells("many", name, "wall", 1e-3, 2, less="one", each=True)
            + [self._figure("many", name, "peak", 1024)]
            + self._cells("waiting", name, "peak", 1, less="one", each=True)
            + [self._figure("waiting", name, "peak", 1024)]
            for name in self._columns("many")
        ]
        title = f"b. {runs} runs of 5 steps, 64 at once (slow columns: {few}), without the start; "
        table(f"{title}{waiting} agents that wait for the model at once ({some})", head, rows)

    def c(self):
        steps = self._sizes.in_process
        head = ["column", *(it for n in steps for it in (f"CPU µs, {n} steps", "×"))]
        head += [f"growth, {steps[-2]} to {steps[-1]}", f"peak MB, {steps[-1]} steps"]
        rows = [
            [name]
            + [it for n in steps for it in self._cells(f"fake:{n}", name, "cpu", n * 1e-6, less="fake:0")]
            + [self._growth("fake", steps[-2:], name), self._figure(f"fake:{steps[-1]}", name, "peak", 1024)]
            for name in self._columns("fake:0")
        ]
        table("c. A step in process, model and tool included, without the start", head, rows)

    def d(self):
        head = ["column", "ms to the first request", "×", "least", "CPU ms", "peak MB", "installed MB"]
        rows = [
            [name, *self._cells("start", name, "first", 1e-3)]
            + [figure(min(self._series("start", name, "first").values(), default=None), 1, 1e-3)]
            + [self._figure("start", name, "cpu", 1e-3), self._figure("start", name, "peak", 1024)]
            + [figure(self._installed.get(name), 1, 1e6)]
            for name in self._columns("start")
        ]
        table("d. Start of the process", head, rows)

    def e(self):
        head = ["column", "steps", "bytes written for each new one", "bytes of blocks for each", "bytes kept for each"]
        head += ["CPU µs for each step", "wall µs for each step", "ms to resume"]
        rows = [
            [name, str(n), self._figure(f"kept:{n}", name, "written", LONG * n, less=f"unkept:{n}")]
            + [self._figure(f"kept:{n}", name, "blocks", LONG * n, less=f"unkept:{n}")]
            + [self._figure(f"kept:{n}", name, "stored", LONG * n)]
            + [self._figure(f"kept:{n}", name, key, n * 1e-6, less=f"unkept:{n}") for key in ("cpu", "wall")]
            + [self._figure(f"resumed:{n}", name, "resume", 1)]
            for name in self._columns(f"kept:{self._sizes.persisted[0]}")
            for n in self._sizes.persisted
        ]
        table(f"e. Sessions on a disk, {LONG} bytes in each tool result, beside what the run takes", head, rows)

    def problems(self):
        found = (f"- `{it['point']}` {it['column']}: {it['problem']}" for it in self._records if "problem" in it)
        if found := list(dict.fromkeys(found)):
            print("\n### What failed\n", *found, sep="\n")
