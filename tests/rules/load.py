"""Scenarios of how well a fleet serves, and of Prometheus itself."""

from __future__ import annotations

from rules.scenario import Scenario
from rules.series import LARGE, A, B, engine, proxy
from rules.service import HEALTHY, C, P

FULL = {**engine(A, kv=[(0.5, 10), (0.95, 60), (0.5, 110)]), **engine(B), **proxy()}

SCENARIOS = [
    Scenario(
        "a pool is 95 % full for an hour",
        {"FleetKvCacheFull": "fires, engines"},
        {**FULL, **engine(A, number="1", kv=[(0.1, 180)])},
        {18: set(), 22: set(), 27: {f"FleetKvCacheFull {C}"}, 69: {f"FleetKvCacheFull {C}"}, 79: set()},
    ),
    Scenario(
        "one conversation of the whole context for five minutes",
        {"FleetKvCacheFull": "silent"},
        {**HEALTHY, **engine(A, kv=[(0.2, 10), (0.935, 5), (0.2, 165)])},
        {minute: set() for minute in (12, 15, 18, 25, 40)},
    ),
    Scenario(
        "the same pool by its old name",
        {"FleetKvCacheFull": "names"},
        {**engine(A, old=True, kv=[(0.95, 180)]), **engine(B), **proxy()},
        {30: {f"FleetKvCacheFull {C}"}},
    ),
    Scenario(
        "a full pool makes requests wait, evicts and slows: one alert",
        {"FleetRequestsQueueing": "one cause", "FleetPrefixReuseLow": "one cause", "FleetLatencyHigh": "one cause"},
        {
            **engine(A, kv=[(0.95, 180)], waiting=[(3, 180)], hits=[(20, 180)], slow=[(0.1, 180)]),
            **engine(B, hits=[(20, 180)]),
            **proxy(),
        },
        {20: {f"FleetKvCacheFull {C}"}, 60: {f"FleetKvCacheFull {C}"}, 170: {f"FleetKvCacheFull {C}"}},
    ),
    Scenario(
        "requests wait for 20 minutes",
        {"FleetRequestsQueueing": "fires, engines"},
        {
            **HEALTHY,
            **engine(A, waiting=[(0, 10), (2, 20), (0, 150)]),
            **engine(A, number="1"),
        },
        {19: set(), 21: {f"FleetRequestsQueueing {C}"}, 29: {f"FleetRequestsQueueing {C}"}, 33: set()},
    ),
    Scenario(
        "a burst waits for 7 minutes",
        {"FleetRequestsQueueing": "silent"},
        {**HEALTHY, **engine(A, waiting=[(0, 10), (12, 7), (0, 163)])},
        {minute: set() for minute in (15, 19, 21, 30)},
    ),
    Scenario(
        "a hung engine makes requests wait: one alert",
        {"FleetRequestsQueueing": "one cause", "FleetKvCacheFull": "one cause"},
        {
            **engine(A, steps=[(10, 10), (0, 170)], waiting=[(0, 10), (4, 170)], kv=[(0.5, 10), (0.95, 170)]),
            **engine(B),
            **proxy(),
        },
        {13: {f"FleetEngineStuck {C}"}, 40: {f"FleetEngineStuck {C}"}, 120: {f"FleetEngineStuck {C}"}},
    ),
    Scenario(
        "a tenth of the prompts comes from the cache",
        {"FleetPrefixReuseLow": "fires, engines"},
        {
            **HEALTHY,
            **engine(A, hits=[(900, 20), (100, 160)]),
            **engine(A, number="1", hits=[(900, 20), (100, 160)]),
            **engine(B, hits=[(900, 20), (100, 160)]),
        },
        {34: set(), 45: {f"FleetPrefixReuseLow {P}"}, 170: {f"FleetPrefixReuseLow {P}"}},
    ),
    Scenario(
        "a burst of cold prompts",
        {"FleetPrefixReuseLow": "silent"},
        {**HEALTHY, **engine(A, queries=[(1000, 30), (8000, 1), (1000, 149)], hits=[(900, 30), (0, 1), (900, 149)])},
        {minute: set() for minute in (31, 35, 46, 60)},
    ),
    Scenario(
        "low reuse of next to no traffic, and hits without a query",
        {"FleetPrefixReuseLow": "idle"},
        {
            **engine(A, queries=[(40, 180)], hits=[(0, 180)]),
            **engine(B, queries=[(0, 180)], hits=[(5, 180)]),
            **proxy(),
        },
        {30: set(), 60: set(), 170: set()},
    ),
    Scenario(
        "low reuse by the old names",
        {"FleetPrefixReuseLow": "names"},
        {**engine(A, old=True, hits=[(100, 180)]), **engine(B, old=True, hits=[(100, 180)]), **proxy()},
        {30: {f"FleetPrefixReuseLow {P}"}},
        {
            "round(sum(fleet_replica:prefix_cache_hits:rate5m))": 200,
            "round(sum(fleet_replica:prefix_cache_queries:rate5m))": 2000,
            "max(fleet_replica:kv_cache_usage:max)": 0.5,
        },
    ),
    Scenario(
        "engines restart one after the other, and their counters begin at 0",
        {"FleetPrefixReuseLow": "reset", "FleetLatencyHigh": "reset", "FleetEngineStuck": "reset"},
        {
            **engine(A, up=[(1, 30), (0, 3), (1, 147)]),
            **engine(B, up=[(1, 40), (0, 3), (1, 137)]),
            **proxy(a=[(1, 30), (0, 3), (1, 147)], b=[(1, 40), (0, 3), (1, 137)]),
        },
        {minute: set() for minute in (31, 34, 36, 41, 44, 50, 60)},
    ),
    Scenario(
        "a third of the requests takes 100 s",
        {"FleetLatencyHigh": "fires, engines"},
        {**HEALTHY, **engine(A, slow=[(0, 20), (0.2, 160)]), **engine(A, number="1")},
        {25: set(), 28: {f"FleetLatencyHigh {P}"}, 170: {f"FleetLatencyHigh {P}"}},
    ),
    Scenario(
        "one long answer among hundreds",
        {"FleetLatencyHigh": "silent"},
        {**HEALTHY, **engine(A, slow=[(0, 30), (0.017, 1), (0, 149)])},
        {minute: set() for minute in (32, 37, 45)},
    ),
    Scenario(
        "four long answers in ten minutes, and nothing else",
        {"FleetLatencyHigh": "idle"},
        {**engine(A, requests=[(0, 180)], slow=[(0.006, 180)]), **engine(B, requests=[(0, 180)]), **proxy()},
        {30: set(), 170: set()},
    ),
    Scenario(
        "every alert names the fleet it is about",
        {"FleetLatencyHigh": "fires"},
        {**HEALTHY, **engine(LARGE, slow=[(0.2, 180)], hits=[(900, 180)])},
        {60: {"FleetLatencyHigh frank-large"}},
    ),
    Scenario(
        "the proxy's timers are 80 ms late",
        {"FleetProxyOverloaded": "fires"},
        {**engine(A), **engine(B), **proxy(lag=0.08)},
        {9: set(), 14: {f"FleetProxyOverloaded {P}"}},
    ),
    Scenario(
        "the proxy's timers are 30 ms late",
        {"FleetProxyOverloaded": "silent"},
        {**engine(A), **engine(B), **proxy(lag=0.03)},
        {9: set(), 14: set(), 60: set()},
    ),
    Scenario(
        "a configuration is refused, then mended",
        {"FleetPrometheusReloadFailed": "fires, silent"},
        {**HEALTHY, 'prometheus_config_last_reload_successful{instance="p"}': "1x39 0x79 1x100"},
        {14: set(), 16: {"FleetPrometheusReloadFailed"}, 29: {"FleetPrometheusReloadFailed"}, 31: set()},
    ),
    Scenario(
        "our rules fail; another's are its own affair",
        {"FleetRulesFailing": "fires, silent, reset"},
        {
            **HEALTHY,
            'prometheus_rule_evaluation_failures_total{rule_group="/r/f.yml;frank-fleet"}': "0x39 0+1x39 0x100",
            'prometheus_rule_evaluation_failures_total{rule_group="/r/theirs.yml;theirs"}': "0+1x300",
        },
        {14: set(), 16: {"FleetRulesFailing"}, 26: set()},
    ),
]
