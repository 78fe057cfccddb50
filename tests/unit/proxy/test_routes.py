"""Which routes are the proxy's own, which are refused, and how requests are counted."""

import pytest
from one_engine import Fleet
from proxy_process import FIRST_TURN
from routing_proxy.requests import MAX_HEAD_BYTES
from routing_proxy.routes import route


@pytest.mark.parametrize(
    "path",
    [
        "/reset_prefix_cache",
        "/reset_prefix_cache/",
        "//reset_prefix_cache",
        "/./sleep",
        "/x/../sleep",
        "/%73leep",
        "/%2573leep",
        "/%2fsleep",
        "/SLEEP",
        "/sleep;v=1",
        "/sleep%3Fx",
        "/sleep?level=1",
        "/collective_rpc/anything",
        "/server_info",
        "/\\sleep",
    ],
)
def test_developer_routes_are_refused_however_they_are_spelled(fleet: Fleet, path: str) -> None:
    answer = fleet.proxy.client().send(f"POST {path} HTTP/1.1\r\nContent-Length: 0\r\n\r\n".encode()).read()
    assert answer.status == 403
    assert answer.json()["error"]["type"] == "permission_error"
    assert fleet.engine.requests == []


@pytest.mark.parametrize("path", ["/sleepy", "/v1/sleep", "/load", "/version", "/pause_me", "/health/", "/ping"])
def test_routes_that_only_look_like_them_are_forwarded(fleet: Fleet, path: str) -> None:
    assert fleet.proxy.get(path).status == 200
    assert fleet.engine.wait_for(1)[0].target == path


def test_own_routes_answer_head_and_refuse_other_methods(fleet: Fleet) -> None:
    assert fleet.proxy.client().send(b"HEAD /health HTTP/1.1\r\n\r\n").read("HEAD").status == 200
    assert fleet.proxy.request("POST", "/metrics", b"").status == 405
    assert fleet.engine.requests == []


def test_requests_are_counted_with_bounded_labels(fleet: Fleet) -> None:
    before = fleet.proxy.metric("routing_proxy_requests_total{")
    other = fleet.proxy.metric('routing_proxy_requests_total{code="200",decision="spread",endpoint="other"')
    for number in range(5):
        fleet.proxy.get(f"/no/such/{number}")
    fleet.proxy.post(body=FIRST_TURN)
    assert fleet.proxy.metric("routing_proxy_requests_total{") == before + 6
    assert fleet.proxy.metric('routing_proxy_requests_total{code="200",decision="spread",endpoint="other"') == other + 5
    text = fleet.proxy.get("/metrics").body.decode()
    assert "/no/such" not in text
    for name in ("in_flight", "replica_up", "conversations"):
        assert f'routing_proxy_{name}{{replica="frank-medium-a"}}' in text


def test_a_client_that_makes_up_long_paths_fills_no_memory():
    remembered = route.cache_info().maxsize
    assert remembered is not None and remembered * MAX_HEAD_BYTES <= 32 * 2**20
