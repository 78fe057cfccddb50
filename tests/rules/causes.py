"""Scenarios of alerts that another one explains while their own condition goes on, and thresholds from both sides."""

from __future__ import annotations

from rules.scenario import Scenario
from rules.series import A, B, Gauge, Series, counter, engine, events, proxy
from rules.service import HEALTHY, C, D, P

DIES: Gauge = [(1, 20), (0, 160)]
KEEPS_FAILING = events("failovers", counter([(0, 20), (0.02, 160)]), reason="connect")
KEEPS_CUTTING = events("answers_cut", counter([(0, 20), (0.02, 160)]))
CRASHES: Gauge = [(1000, 20), (2000, 10), (3000, 20), (4000, 130)]
SLOW = [(0.2, 180.0)]


def kept_back(name: str, alerts: str, series: Series, firing: dict[float, set[str]]) -> Scenario:
    """Return a scenario of alerts (separated by blanks) that others explain."""
    return Scenario(name, dict.fromkeys(alerts.split(), "one cause"), series, firing)


def dead(first: str) -> dict[float, set[str]]:
    """Return what fires when replica a dies at minute 20 and nothing but `first` is seen before its alerts."""
    return {21: {first}, 34: {first}, 36: {f"FleetReplicaDown {C}"}, 56: {f"FleetReplicaStaysDown {C}"}}


EXPLAINED = [
    kept_back(
        "failovers go on while the replica is down",
        "FleetFailover",
        {**engine(A, up=DIES), **engine(B), **proxy(a=DIES), **KEEPS_FAILING},
        dead(f"FleetFailover {C}"),
    ),
    kept_back(
        "answers are cut while the replica is down",
        "FleetAnswersCut",
        {**engine(A, up=DIES), **engine(B), **proxy(a=DIES), **KEEPS_CUTTING},
        dead(f"FleetAnswersCut {C}"),
    ),
    *[
        kept_back(
            f"no replica serves, and {alert} goes on",
            alert,
            {**engine(A, up=DIES), **engine(B, up=DIES), **proxy(a=DIES, b=DIES), **events},
            {29: {f"{alert} {C}"}, 31: {f"FleetNotServing {P}"}, 90: {f"FleetNotServing {P}"}},
        )
        for alert, events in (("FleetFailover", KEEPS_FAILING), ("FleetAnswersCut", KEEPS_CUTTING))
    ],
    *[
        kept_back(
            f"an engine hangs, and {alert} goes on",
            alert,
            {**engine(A, steps=[(10, 20), (0, 160)]), **engine(B), **proxy(), **events},
            {23: {f"FleetEngineStuck {C}"}, 90: {f"FleetEngineStuck {C}"}},
        )
        for alert, events in (("FleetFailover", KEEPS_FAILING), ("FleetAnswersCut", KEEPS_CUTTING))
    ],
    kept_back(
        "an engine crashes again and again, which cuts answers and empties its cache",
        "FleetAnswersCut FleetPrefixReuseLow",
        {
            **engine(A, started=CRASHES, hits=[(900, 20), (50, 160)]),
            **engine(B, hits=[(900, 20), (50, 160)]),
            **proxy(),
            **KEEPS_CUTTING,
        },
        {45: {f"FleetAnswersCut {C}", f"FleetPrefixReuseLow {P}"}, 52: {f"FleetEngineRestarting {C}"}},
    ),
    kept_back(
        "waiting makes requests slow",
        "FleetLatencyHigh",
        {**HEALTHY, **engine(A, waiting=[(3, 180)], slow=SLOW)},
        {9: {f"FleetLatencyHigh {P}"}, 12: {f"FleetRequestsQueueing {C}"}, 90: {f"FleetRequestsQueueing {C}"}},
    ),
    kept_back(
        "cold prefills make requests slow",
        "FleetLatencyHigh",
        {**engine(A, hits=[(50, 180)], slow=SLOW), **engine(B, hits=[(50, 180)]), **proxy()},
        {12: {f"FleetLatencyHigh {P}"}, 30: {f"FleetPrefixReuseLow {P}"}, 90: {f"FleetPrefixReuseLow {P}"}},
    ),
    kept_back(
        "a hung engine's share makes the other one slow",
        "FleetLatencyHigh",
        {**engine(A, steps=[(10, 20), (0, 160)]), **engine(B, slow=SLOW), **proxy()},
        {19: {f"FleetLatencyHigh {P}"}, 23: {f"FleetEngineStuck {C}"}, 90: {f"FleetEngineStuck {C}"}},
    ),
    kept_back(
        "a dead replica's share makes the other one slow",
        "FleetLatencyHigh",
        {**engine(A, up=DIES), **engine(B, slow=SLOW), **proxy(a=DIES)},
        {19: {f"FleetLatencyHigh {P}"}, 36: {f"FleetReplicaDown {C}"}, 70: {f"FleetReplicaStaysDown {C}"}},
    ),
]

THRESHOLDS = [
    Scenario(
        "pools at 89 and 91 %",
        {"FleetKvCacheFull": "fires, silent"},
        {**engine(A, kv=[(0.89, 180)]), **engine(B, kv=[(0.91, 180)]), **proxy()},
        {90: {f"FleetKvCacheFull {D}"}},
    ),
    Scenario(
        "reuse of 21 %",
        {"FleetPrefixReuseLow": "silent"},
        {**engine(A, hits=[(210, 180)]), **engine(B, hits=[(210, 180)]), **proxy()},
        {30: set(), 90: set()},
    ),
    Scenario(
        "reuse of 19 %",
        {"FleetPrefixReuseLow": "fires"},
        {**engine(A, hits=[(190, 180)]), **engine(B, hits=[(190, 180)]), **proxy()},
        {30: {f"FleetPrefixReuseLow {P}"}},
    ),
    *[
        Scenario(
            f"no reuse in {tokens} tokens/s",
            {"FleetPrefixReuseLow": "fires" if alerts else "idle"},
            {
                **engine(A, queries=[(tokens, 180)], hits=[(0, 180)]),
                **engine(B, queries=[(0, 180)], hits=[(0, 180)]),
                **proxy(),
            },
            {60: alerts},
        )
        for tokens, alerts in ((95, set[str]()), (105, {f"FleetPrefixReuseLow {P}"}))
    ],
    *[
        Scenario(
            f"one request in {share} takes 100 s",
            {"FleetLatencyHigh": "fires" if alerts else "silent"},
            {**engine(A, requests=[(1, 180)], slow=[(1 / share, 180)]), **engine(B, requests=[(0, 180)]), **proxy()},
            {60: alerts},
        )
        for share, alerts in ((25, set[str]()), (15, {f"FleetLatencyHigh {P}"}))
    ],
    Scenario(
        "every request takes between 2 and 60 s",
        {"FleetLatencyHigh": "silent"},
        {key: "0x720" if 'le="2.0"' in key else samples for key, samples in HEALTHY.items()},
        {60: set(), 170: set()},
    ),
    Scenario(
        "six long answers in ten minutes, and nothing else",
        {"FleetLatencyHigh": "fires"},
        {**engine(A, requests=[(0, 180)], slow=[(0.01, 180)]), **engine(B, requests=[(0, 180)]), **proxy()},
        {60: {f"FleetLatencyHigh {P}"}},
    ),
    Scenario(
        "a failed reload that ends in three minutes",
        {"FleetPrometheusReloadFailed": "silent"},
        {**HEALTHY, 'prometheus_config_last_reload_successful{instance="p"}': "1x39 0x11 1x100"},
        {12: set(), 14: set(), 20: set()},
    ),
]

SCENARIOS = [*EXPLAINED, *THRESHOLDS]
