"""curl through the proxy: the framings a command line produces that libraries do not."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from replay_engine import ReplayEngine, recorded

CHAT = json.dumps({"model": "frank-medium", "messages": [{"role": "user", "content": "hello"}]})
CHAT_ANSWER = recorded("chat").body


def curl(*arguments: str, stdin: bytes = b"") -> bytes:
    """Run curl and return what it printed; a failure shows curl's own message."""
    binary = shutil.which("curl")
    assert binary, "curl is not installed: apt-get install curl"
    run = subprocess.run(
        [binary, "-sS", "-m", "10", *arguments], input=stdin, capture_output=True, timeout=20, check=False
    )
    assert run.returncode == 0, run.stderr.decode()
    return run.stdout


def test_plain_post(base_url: str, engine: ReplayEngine) -> None:
    answer = curl("-d", CHAT, "-H", "Content-Type: application/json", f"{base_url}/v1/chat/completions")
    assert answer == CHAT_ANSWER
    assert engine.asked[0].body == CHAT.encode()


def test_chunked_upload_reaches_the_engine_with_a_length(base_url: str, engine: ReplayEngine, tmp_path: Path) -> None:
    body = json.dumps({"model": "frank-medium", "messages": [{"role": "user", "content": "x" * 300_000}]}).encode()
    headers = ("-H", "Transfer-Encoding: chunked", "-H", "Content-Type: application/json")
    answer = curl("-T", "-", "-X", "POST", *headers, f"{base_url}/v1/chat/completions", stdin=body)
    assert answer == CHAT_ANSWER
    (asked,) = engine.asked
    assert asked.body == body
    assert asked.headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in asked.headers


def test_expect_100_is_answered_by_the_proxy(base_url: str, engine: ReplayEngine) -> None:
    shown = curl("-i", "-H", "Expect: 100-continue", "-d", CHAT, f"{base_url}/v1/chat/completions")
    assert shown.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert shown.endswith(CHAT_ANSWER)
    assert engine.asked[0].body == CHAT.encode()


def test_http_1_0_gets_a_length_or_a_closed_connection(base_url: str, engine: ReplayEngine) -> None:
    shown = curl("-0", "-i", "-d", CHAT, f"{base_url}/v1/chat/completions")
    assert shown.endswith(CHAT_ANSWER)
    stream = json.dumps({"model": "frank-medium", "stream": True, "messages": []})
    head, _, body = curl("-0", "-i", "-d", stream, f"{base_url}/v1/chat/completions").partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()  # HTTP/1.0 has no chunks
    assert body == recorded("chat-stream-usage").body


def test_head_has_the_headers_of_get_and_no_body(base_url: str, engine: ReplayEngine) -> None:
    shown = curl("-I", f"{base_url}/v1/models")
    assert shown.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"content-length: %d\r\n" % len(recorded("models").body) in shown.lower()
    assert shown.endswith(b"\r\n\r\n")
    assert [asked.method for asked in engine.asked] == ["HEAD"]


def test_a_kept_connection_carries_on_after_head_and_chunks(base_url: str, engine: ReplayEngine) -> None:
    address = f"{base_url}/v1/models"
    shown = curl("-I", address, "--next", "-sS", "-w", "%{num_connects}", address)
    assert shown.endswith(recorded("models").body + b"0")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_any_method_goes_to_the_engine(base_url: str, engine: ReplayEngine, method: str) -> None:
    curl("-X", method, f"{base_url}/v1/anything")
    assert [(asked.method, asked.path) for asked in engine.asked] == [(method, "/v1/anything")]
