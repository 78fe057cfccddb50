"""Scenarios of who serves: deaths, rolls, targets that are gone."""

from __future__ import annotations

from rules.scenario import ALL, Scenario
from rules.series import GONE, LARGE, A, B, Gauge, Target, counter, engine, events, gauge, proxy

C, D, P = "frank-medium frank-medium-a", "frank-medium frank-medium-b", "frank-medium"


def down_from(start: float, end: float, after: float) -> Gauge:
    """Return 1, 0 from minute `start` to `end`, and 1 for `after` minutes more."""
    return [phase for phase in [(1.0, start), (0.0, end - start), (1.0, after)] if phase[1]]


# A replica is drained for 5 minutes, then stops for 1.75 and loads for 3.5; then the other one.
ROLL_A, ROLL_B = down_from(15, 20.25, 40), down_from(30.25, 35.5, 25)
ROLLED = {
    **engine(A, up=ROLL_A, minutes=60, started=[(1000, 15), (GONE, 5.25), (3000, 40)]),
    **engine(B, up=ROLL_B, minutes=60, started=[(1000, 30.25), (GONE, 5.25), (5000, 25)]),
    **proxy(a=down_from(10, 20.5, 39.5), b=down_from(25, 35.75, 24.25), up=[(1, 60)]),
}
HEALTHY = {**engine(A), **engine(B), **proxy()}
A_DIES = down_from(10, 130, 50)
A_DIES_LATER = down_from(20, 140, 40)

SCENARIOS = [
    Scenario(
        "nothing at all", {ALL: "absent", "FleetNothingScraped": "fires"}, {}, {4: set(), 6: {"FleetNothingScraped"}}
    ),
    Scenario(
        "three hours of a healthy fleet", {ALL: "silent"}, HEALTHY, {minute: set() for minute in (5, 20, 60, 178)}
    ),
    Scenario(
        "three idle hours",
        {ALL: "idle"},
        {
            **engine(A, running=0, queries=[(0, 180)], hits=[(0, 180)], steps=[(0, 180)], requests=[(0, 180)]),
            **engine(B, running=0, queries=[(0, 180)], hits=[(0, 180)], steps=[(0, 180)], requests=[(0, 180)]),
            **proxy(),
        },
        {minute: set() for minute in (5, 20, 60, 178)},
    ),
    Scenario(
        "a planned roll of both replicas",
        {ALL: "roll, reset"},
        ROLLED,
        {float(minute): set() for minute in range(1, 60)},
    ),
    Scenario(
        "a replica dies for two hours: a failover, then down, then given up, and never two of them",
        {
            "FleetFailover": "fires, one cause",
            "FleetReplicaDown": "fires, one cause",
            "FleetReplicaStaysDown": "fires",
            "FleetTargetDown": "one cause",
            "FleetAnswersCut": "one cause",
        },
        {
            **engine(A, up=A_DIES_LATER),
            **engine(B),
            **proxy(a=A_DIES_LATER),
            # The counter is there from its first event on only.
            **events("failovers", "_x80 2x640", reason="connect"),
        },
        {
            19: set(),
            21: {f"FleetFailover {C}"},
            34: {f"FleetFailover {C}"},
            36: {f"FleetReplicaDown {C}"},
            54: {f"FleetReplicaDown {C}"},
            56: {f"FleetReplicaStaysDown {C}"},
            80: {f"FleetReplicaStaysDown {C}"},
            139: {f"FleetReplicaStaysDown {C}"},
            141: set(),
            179: set(),
        },
    ),
    Scenario(
        "it dies in the middle of answers: those outrank the failover",
        {"FleetAnswersCut": "fires", "FleetFailover": "one cause"},
        {
            **engine(A, up=down_from(20, 24, 156)),
            **engine(B),
            **proxy(a=down_from(20, 24, 156)),
            **events("failovers", "5x80 7x600", reason="died"),
            **events("answers_cut", "_x80 1x600"),
        },
        {19: set(), 21: {f"FleetAnswersCut {C}"}, 34: {f"FleetAnswersCut {C}"}, 37: set(), 170: set()},
    ),
    Scenario(
        "failovers of long ago, seen by a Prometheus that has just begun, are no news",
        {"FleetFailover": "silent", "FleetAnswersCut": "silent"},
        {**HEALTHY, **events("failovers", "40x700", reason="connect"), **events("answers_cut", "3x700")},
        {1: set(), 5: set(), 14: set(), 16: set(), 40: set()},
    ),
    Scenario(
        "the proxy restarts, and its counters begin at 0",
        {
            "FleetFailover": "reset",
            "FleetAnswersCut": "reset",
            "FleetProxyDown": "reset, silent",
            "FleetProxyOverloaded": "reset",
        },
        {
            **engine(A),
            **engine(B),
            **proxy(up=down_from(30, 34, 146)),
            **events("failovers", "40x119 stale _x180", reason="connect"),
            **events("answers_cut", "40x119 stale _x180"),
        },
        {minute: set() for minute in (29, 33, 36, 50)},
    ),
    Scenario(
        "the host is gone: the proxy's alert stands for all of it",
        {"FleetProxyDown": "fires", "FleetTargetDown": "one cause", "FleetNotServing": "one cause"},
        {**engine(A, up=[(1, 10), (0, 170)]), **engine(B, up=[(1, 10), (0, 170)]), **proxy(up=[(1, 10), (0, 170)])},
        {14: set(), 16: {f"FleetProxyDown {P}"}, 60: {f"FleetProxyDown {P}"}, 170: {f"FleetProxyDown {P}"}},
    ),
    Scenario(
        "both engines are gone, the proxy is there",
        {"FleetNotServing": "fires", "FleetReplicaDown": "one cause", "FleetReplicaStaysDown": "one cause"},
        {**engine(A, up=A_DIES), **engine(B, up=A_DIES), **proxy(a=A_DIES, b=A_DIES)},
        {
            19: set(),
            21: {f"FleetNotServing {P}"},
            60: {f"FleetNotServing {P}"},
            129: {f"FleetNotServing {P}"},
            131: set(),
        },
    ),
    Scenario(
        "both load after a boot",
        {"FleetNotServing": "silent"},
        {
            **engine(A, up=down_from(10, 13.5, 166)),
            **engine(B, up=down_from(10, 13.5, 166)),
            **proxy(a=down_from(10, 13.75, 166), b=down_from(10, 13.75, 166)),
        },
        {minute: set() for minute in (11, 13, 15, 30)},
    ),
    Scenario(
        "a fleet of one engine without a proxy",
        {"FleetNotServing": "fires", "FleetTargetDown": "one cause"},
        {**HEALTHY, **engine(LARGE, up=down_from(10, 130, 50))},
        {19: set(), 21: {"FleetNotServing frank-large"}, 129: {"FleetNotServing frank-large"}, 131: set()},
    ),
    Scenario(
        "Prometheus cannot reach an engine that serves",
        {"FleetTargetDown": "fires"},
        {**engine(A, up=A_DIES), **engine(B), **proxy()},
        {19: set(), 21: {f"FleetTargetDown {C}"}, 129: {f"FleetTargetDown {C}"}, 131: set()},
    ),
    Scenario(
        "a scrape fails now and then",
        {"FleetTargetDown": "silent"},
        {**engine(A, up=[(1, 5), (0, 5), (1, 1), (0, 9), (1, 160)]), **engine(B), **proxy()},
        {minute: set() for minute in (10, 15, 19, 21, 40)},
    ),
    Scenario(
        "a target is dropped from the configuration",
        {"FleetTargetMissing": "fires"},
        {**engine(A, up=[(1, 20), (GONE, 160)]), **engine(B), **proxy()},
        {29: set(), 31: {f"FleetTargetMissing {C}"}, 179: {f"FleetTargetMissing {C}"}},
    ),
    Scenario(
        "a fleet without a proxy is taken out on purpose: said for an hour",
        {"FleetTargetMissing": "fires, silent"},
        {**HEALTHY, **engine(LARGE, up=[(1, 20), (GONE, 160)])},
        {
            29: set(),
            31: {"FleetTargetMissing frank-large frank-large"},
            78: {"FleetTargetMissing frank-large frank-large"},
            82: set(),
        },
    ),
    Scenario(
        "the proxy's job is dropped",
        {"FleetTargetMissing": "fires"},
        {
            **engine(A),
            **engine(B),
            **proxy(up=[(1, 20), (GONE, 160)], a=[(1, 20), (GONE, 160)], b=[(1, 20), (GONE, 160)]),
        },
        {29: set(), 31: {f"FleetTargetMissing {P}"}, 82: set()},
    ),
    Scenario(
        "all targets are dropped: one alert",
        {"FleetNothingScraped": "fires", "FleetTargetMissing": "one cause"},
        {**engine(LARGE, up=[(1, 20), (GONE, 160)])},
        {24: set(), 26: {"FleetNothingScraped"}, 60: {"FleetNothingScraped"}},
    ),
    Scenario(
        "something else answers on an engine's port",
        {"FleetEngineMetricsMissing": "fires"},
        {**engine(A), f"up{B.labels()}": gauge([(1, 180)]), **proxy()},
        {4: set(), 6: {f"FleetEngineMetricsMissing {D}"}, 179: {f"FleetEngineMetricsMissing {D}"}},
    ),
    *[
        Scenario(
            f"a vLLM has renamed {name}",
            {"FleetEngineMetricsMissing": "fires"},
            {**{key: value for key, value in engine(A).items() if f"vllm:{name}{{" not in key}, **engine(B), **proxy()},
            {4: set(), 6: {f"FleetEngineMetricsMissing {C}"}},
        )
        for name in (
            *("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prefix_cache_queries_total"),
            *("e2e_request_latency_seconds_count", "iteration_tokens_total_count"),
        )
    ],
    Scenario(
        "an engine with the old names, and one with two engines",
        {"FleetEngineMetricsMissing": "names, engines"},
        {**engine(A, old=True), **engine(B), **engine(B, number="1"), **proxy()},
        {6: set(), 60: set()},
    ),
    Scenario(
        "an engine hangs, the proxy routes around it, and it is killed",
        {"FleetEngineStuck": "fires", "FleetReplicaDown": "one cause", "FleetReplicaStaysDown": "one cause"},
        {
            **engine(A, steps=[(10, 10), (0, 50), (GONE, 4), (10, 116)], up=[(1, 60), (0, 4), (1, 116)]),
            **engine(B),
            **proxy(a=down_from(12, 64, 116)),
        },
        {
            11: set(),
            13: {f"FleetEngineStuck {C}"},
            40: {f"FleetEngineStuck {C}"},
            59: {f"FleetEngineStuck {C}"},
            61: set(),
            70: set(),
        },
    ),
    Scenario(
        "a request after an idle hour",
        {"FleetEngineStuck": "idle, silent"},
        {
            **HEALTHY,
            **engine(A, steps=[(0, 60), (10, 120)], minutes=180),
            f"vllm:num_requests_running{A.labels(engine='0', model_name=A.fleet)}": gauge([(0, 59.75), (1, 120)]),
        },
        {minute: set() for minute in (59.5, 60, 60.5, 61, 62)},
    ),
    Scenario(
        "one of two engines in a target hangs",
        {"FleetEngineStuck": "engines"},
        {**engine(A), **engine(A, number="1", steps=[(10, 10), (0, 170)]), **engine(B), **proxy()},
        {11: set(), 13: {f"FleetEngineStuck {C}"}},
    ),
    Scenario(
        "an engine that crashes every 20 minutes",
        {"FleetEngineRestarting": "fires, reset", "FleetFailover": "one cause"},
        {
            **engine(A, started=[(1000, 20), (2000, 20), (3000, 20), (4000, 120)]),
            **engine(B),
            **proxy(),
            **events("failovers", counter([(0.001, 180)]), reason="connect"),
        },
        {
            39: {f"FleetFailover {C}"},
            59: {f"FleetFailover {C}"},
            61: {f"FleetEngineRestarting {C}"},
            130: {f"FleetEngineRestarting {C}"},
            145: {f"FleetFailover {C}"},
        },
    ),
    Scenario(
        "a deploy and its undoing",
        {"FleetEngineRestarting": "silent"},
        {**HEALTHY, **engine(A, started=[(1000, 20), (2000, 20), (3000, 140)])},
        {minute: set() for minute in (21, 41, 100, 170)},
    ),
    Scenario(
        "one replica stays down on another host, while the proxy's host is fine",
        {"FleetReplicaDown": "fires"},
        {
            **engine(Target("frank-medium", "other", A.replica), up=A_DIES),
            **engine(B),
            **proxy(a=A_DIES),
        },
        {24: set(), 26: {f"FleetReplicaDown {C}"}, 46: {f"FleetReplicaStaysDown {C}"}},
    ),
]
