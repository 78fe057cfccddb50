"""The routing proxy's admin port, as seen from the proxy's own host."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from ansible_collections.frank.fleet.plugins.module_utils.http import OPENER

#: The admin port is on loopback and answers from memory.
TIMEOUT_SECONDS = 5


class ProxyAbsentError(Exception):
    """Nothing answers on the admin port: the proxy is down or not installed."""


class LastServingError(Exception):
    """The proxy refuses to drain the last replica that serves."""


class ProxyAdmin:
    """`GET /replicas`, `POST /drain/NAME` and `POST /undrain/NAME` of one proxy."""

    def __init__(self, url: str):
        self._url = url.rstrip("/")

    def replica(self, name: str) -> dict[str, Any] | None:
        """What the proxy says of a replica (`state`, `reason`, `in_flight`, ...), None if it has none of this name."""
        return self.replicas().get(name)

    def replicas(self) -> dict[str, dict[str, Any]]:
        """What the proxy says of each replica, by name. Raises ProxyAbsentError."""
        return {entry["name"]: entry for entry in self._request("GET", "replicas")}

    def drain(self, name: str, force: bool) -> None:
        """Send a replica no more requests. Raises LastServingError unless `force`, ProxyAbsentError."""
        try:
            self._request("POST", f"drain/{urllib.parse.quote(name, safe='')}{'?force=1' if force else ''}")
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
            raise LastServingError(name) from error

    def undrain(self, name: str) -> None:
        """Send a replica requests again. Raises ProxyAbsentError."""
        self._request("POST", f"undrain/{urllib.parse.quote(name, safe='')}")

    def _request(self, method: str, path: str) -> Any:
        request = urllib.request.Request(f"{self._url}/{path}", method=method)
        try:
            with OPENER.open(request, timeout=TIMEOUT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError:
            raise
        except OSError as error:
            raise ProxyAbsentError(str(getattr(error, "reason", error))) from error
