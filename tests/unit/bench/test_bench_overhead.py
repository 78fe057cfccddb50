"""What proxy_overhead judges, and the Python that it runs ours with."""

import platform
import sys

import pytest
from bench.proxy_overhead.interpreter import Interpreter
from bench.proxy_overhead.measure import RequestCell, Results
from bench.proxy_overhead.processes import ChildError
from bench.proxy_overhead.targets import COUNTING, DIRECT, OURS, Verdict, verdicts

SIZE, ONE = 1_000, 1


def cell(p50: float) -> RequestCell:
    return RequestCell(1000.0, p50, p50, 50.0, 0)


def judged(**p50: float) -> dict[str, bool | None]:
    """The verdicts about added latency, by what they compare, for peers with these medians; direct has 30 µs."""
    results = Results()
    for peer, latency in {DIRECT: 30.0, OURS: 140.0, COUNTING: 100.0, **p50}.items():
        for connections in (ONE, 16):
            results.requests[peer, SIZE, connections] = [cell(latency)]
    found: list[Verdict] = verdicts(results, [SIZE], [ONE, 16])
    lines = [verdict for verdict in found if verdict.text.startswith("added p50") and "c1:" in verdict.text]
    return {verdict.text.removeprefix("added p50 of ").partition(" in ")[0]: verdict.met for verdict in lines}


def test_ours_must_be_below_every_router():
    assert judged(**{"router/cache_aware": 141.0}) == {"ours below router/cache_aware": True}
    assert judged(**{"router/cache_aware": 140.0}) == {"ours below router/cache_aware": False}, "a tie is not below"


def test_a_counter_is_also_compared_with_ours_as_a_counter():
    """That comparison is shown and binds nobody."""
    assert judged(**{"router/round_robin": 120.0}) == {
        "ours below router/round_robin": False,
        "ours/roundrobin below router/round_robin": None,
    }


def test_a_python_tells_its_version():
    assert Interpreter().version() == platform.python_version()


def test_a_python_without_the_packages_is_named():
    bare = Interpreter((sys.executable, "-S", "-E"))
    with pytest.raises(ChildError, match="cannot run the proxy: ModuleNotFoundError"):
        bare.version()


def test_a_python_that_is_not_there_is_named():
    with pytest.raises(ChildError, match="/no/such/python cannot be started: No such file"):
        Interpreter(("/no/such/python",)).version()
