"""Is an LLM endpoint ready: its health, the model it serves, and one tiny completion."""

from __future__ import annotations

import json
import urllib.error
import urllib.request

from ansible_collections.frank.fleet.plugins.module_utils.http import OPENER

#: A probe of health or models answers at once or not at all.
PROBE_SECONDS = 5
#: A completion of a few tokens waits behind running prefills: 12 s for 32k tokens on one card, and some may queue.
COMPLETION_SECONDS = 120
COMPLETION_TOKENS = 4


class NotReadyError(Exception):
    """The endpoint is not ready yet; the message says which probe failed and how."""


def probe(url: str, model: str | None = None, completion: bool = False, api_key: str | None = None) -> str:
    """Raise NotReadyError unless `url` (scheme, host, port) is healthy, serves `model` and completes a prompt.

    Returns the replica that completed it as the routing proxy names it, empty if no proxy answered.
    """
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    base = url.rstrip("/")
    _request(f"{base}/health", headers, PROBE_SECONDS)
    if not model:
        return ""
    served = [entry.get("id") for entry in _listed(_request(f"{base}/v1/models", headers, PROBE_SECONDS)[0], "data")]
    if model not in served:
        raise NotReadyError(f"{base}/v1/models serves {', '.join(map(str, served)) or 'nothing'}, not {model}")
    if not completion:
        return ""
    question = {"model": model, "messages": [{"role": "user", "content": "Say OK"}], "max_tokens": COMPLETION_TOKENS}
    answer, replica = _request(f"{base}/v1/chat/completions", headers, COMPLETION_SECONDS, question)
    if not _listed(answer, "choices"):
        raise NotReadyError(f"{base}/v1/chat/completions answered without choices")
    return replica


def _request(url: str, headers: dict[str, str], timeout: float, body: dict | None = None) -> tuple[bytes, str]:
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"})
    try:
        with OPENER.open(request, timeout=timeout) as response:
            return response.read(), response.headers.get("X-Fleet-Replica", "")
    except urllib.error.HTTPError as error:
        raise NotReadyError(f"{url} answered {error.code}: {error.read(300).decode('utf-8', 'replace')}") from error
    except (OSError, ValueError) as error:
        raise NotReadyError(f"{url}: {getattr(error, 'reason', error)}") from error


def _listed(answer: bytes, key: str) -> list[dict]:
    try:
        entries = json.loads(answer)[key]
        return [entry for entry in entries if isinstance(entry, dict)]
    except (ValueError, KeyError, TypeError) as error:
        raise NotReadyError(f"the answer has no list '{key}'") from error
