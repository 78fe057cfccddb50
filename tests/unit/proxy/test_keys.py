"""Bearer keys."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from proxy_process import ProxyProcess
from stub_engine import StubEngine

Start = Callable[..., ProxyProcess]


class TestKeys:
    @pytest.fixture
    def keys(self, tmp_path: Path) -> Path:
        path = tmp_path / "keys"
        path.write_text("# people\nkey-one\n  key#two  # spare\n\n")
        return path

    def test_only_keys_open_the_endpoint(self, start_proxy: Start, engines: list[StubEngine], keys: Path) -> None:
        proxy = start_proxy(API_KEYS_FILE=str(keys), LOG_REQUESTS="1")
        assert proxy.post(headers={"Authorization": "Bearer key-one"}).status == 200
        assert proxy.post(headers={"Authorization": "bearer key#two"}).status == 200
        assert proxy.post("/v1/messages", headers={"X-Api-Key": "key-one"}).status == 200
        wrong: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer key-on"},
            {"Authorization": "Bearer "},
            {"Authorization": "Basic key-one"},
            {"Authorization": "Bearer # people"},
            {"X-Api-Key": ""},
            {"Authorization": "Bearer k\xe9y"},
        ]
        for headers in wrong:
            answer = proxy.post(headers=headers)
            assert (answer.status, answer.body) == (401, b'{"error":"Unauthorized"}'), headers
        got = [request for engine in engines for request in engine.requests]
        assert len(got) == 3
        assert ["Bearer key-one"] in [request.header("authorization") for request in got]
        assert proxy.get("/health").status == proxy.get("/metrics").status == 200
        assert proxy.metric('routing_proxy_requests_total{code="401"') == 7
        assert not any("key-one" in line or "key#two" in line for line in proxy.lines)

    def test_browsers_ask_without_a_key_what_is_allowed(self, start_proxy: Start, keys: Path) -> None:
        assert start_proxy(API_KEYS_FILE=str(keys)).request("OPTIONS", "/v1/chat/completions").status == 200

    def test_developer_routes_stay_refused_with_a_key(self, start_proxy: Start, keys: Path) -> None:
        proxy = start_proxy(API_KEYS_FILE=str(keys))
        assert proxy.post("/sleep").status == 401
        assert proxy.post("/sleep", headers={"Authorization": "Bearer key-one"}).status == 403

    def test_a_changed_file_is_read_again(self, start_proxy: Start, keys: Path) -> None:
        proxy = start_proxy(API_KEYS_FILE=str(keys))
        keys.write_text("key-three\n")
        proxy.wait_for_line("API keys read again, 1 in use")
        assert proxy.post(headers={"Authorization": "Bearer key-three"}).status == 200
        assert proxy.post(headers={"Authorization": "Bearer key-one"}).status == 401

    def test_sighup_reads_it_at_once_and_a_bad_file_changes_nothing(self, start_proxy: Start, keys: Path) -> None:
        proxy = start_proxy(API_KEYS_FILE=str(keys))
        keys.unlink()
        proxy.process.send_signal(signal.SIGHUP)
        proxy.wait_for_line("API_KEYS_FILE: cannot read")
        assert proxy.post(headers={"Authorization": "Bearer key-one"}).status == 200
