"""Whether the arithmetic of the tables holds."""

from .columns import BASE
from .measure import WORK, wrong
from .suites import Sizes
from .tables import Tables, exponent, figure, median, pairwise


def self_test():
    """Whether the arithmetic of the tables holds."""
    assert median([3, None, 1]) == 2 and median([]) is None
    assert pairwise({0: 2, 1: 9, 2: 5}, {0: 1, 1: 3}) == 2.5
    assert pairwise({0: 2, 1: -1}, {0: -1, 1: 3}) is None
    assert exponent([(10, 3), (100, 300)]) == 2 and exponent([(10, -1), (100, 3)]) is None
    assert [figure(it) for it in (None, -1, 0.25, 99.94, 12345)] == ["–", "<noise", "0.2", "99.9", "12,345"]
    common = dict(point="p", round=0, runs=2)
    records = [{**common, "column": BASE, "cpu": 3}, {**common, "column": "x", "cpu": 9}]
    records.append({**common, "point": "q", "column": "x", "cpu": 1})
    tables = Tables(records, Sizes(), {})
    assert tables._cells("p", "x", "cpu", 1) == ["9.0", "3.00"]
    assert tables._figure("p", "x", "cpu", 1, less="q", each=True) == "4.0"
    work, seen = {**WORK, "STEPS": 2}, dict(requests=3, bytes=300)
    done = dict(final="DONE steps=2", tool_calls=2)
    assert wrong(work, done, seen) is None
    assert wrong(work, done | {"tool_calls": 1}, seen) == "1 calls instead of 2"
    assert wrong(work, done, seen | {"requests": 2}) == "2 requests instead of 3"
    assert wrong(work, done, seen | {"bytes": 299}) == "299 bytes are less than the conversation"
