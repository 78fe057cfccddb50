"""Requests to the fleet's own ports and to those of who watches it."""

from __future__ import annotations

import urllib.request

#: A proxy configured for the user's shell must not see requests to our own ports.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
