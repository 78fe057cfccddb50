"""The configuration, read from environment variables."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .routing import POLICIES

_HOST = re.compile(r"[0-9a-f:.]*:[0-9a-f:.]*|(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class ConfigError(ValueError):
    """An environment variable that can't be used; its text is one line that names the variable and the fix."""

    def __init__(self, variable: str, problem: str) -> None:
        super().__init__(f"{variable}: {problem}")


@dataclass(frozen=True, slots=True)
class Backend:
    """Where a replica listens."""

    name: str
    url: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Return `host:port` as the Host header wants it."""
        return self.url.removeprefix("http://")


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set; times in seconds, sizes in bytes."""

    backends: tuple[Backend, ...]
    host: str
    port: int
    routing: str
    affinity_bytes: int
    admin_port: int | None
    health_interval: float
    connect_timeout: float
    shutdown_timeout: float
    stall_after: float
    max_body_bytes: int
    state_dir: Path | None
    api_keys_file: Path | None
    log_requests: bool


def load(environ: Mapping[str, str]) -> Config:
    """Read the configuration; ConfigError for the first variable that is missing or invalid. Empty means unset."""
    values = {name: value.strip() for name, value in environ.items() if value.strip()}
    port = _whole(values, "PORT", 7770, 1, 65535)
    admin_port = _whole(values, "ADMIN_PORT", 0, 1, 65535) or None
    if admin_port == port:
        raise ConfigError("ADMIN_PORT", f"must differ from PORT, both are {port}")
    return Config(
        backends=_backends(values.get("BACKENDS", "")),
        host=values.get("HOST", "0.0.0.0"),
        port=port,
        routing=_one_of(values, "ROUTING", POLICIES),
        affinity_bytes=_whole(values, "AFFINITY_BYTES", 4096, 1, 2**31),
        admin_port=admin_port,
        health_interval=_seconds(values, "HEALTH_INTERVAL", 2.0),
        connect_timeout=_seconds(values, "CONNECT_TIMEOUT", 5.0),
        shutdown_timeout=_seconds(values, "SHUTDOWN_TIMEOUT", 30.0, zero=True),
        stall_after=_seconds(values, "STALL_AFTER", 120.0),
        max_body_bytes=_whole(values, "MAX_BODY_BYTES", 128 * 2**20, 1, 2**40),
        state_dir=_state_dir(values.get("STATE_DIR")),
        api_keys_file=Path(values["API_KEYS_FILE"]) if "API_KEYS_FILE" in values else None,
        log_requests=_one_of(values, "LOG_REQUESTS", ("0", "1")) == "1",
    )


def _backends(text: str) -> tuple[Backend, ...]:
    form = "expected name=http://host:port,name=http://host:port,..."
    if not text:
        raise ConfigError("BACKENDS", f"is not set, {form}")
    backends = [_backend(item.strip(), form) for item in text.split(",") if item.strip()]
    names = [backend.name for backend in backends]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("BACKENDS", f"names {name} twice")
    if not backends:
        raise ConfigError("BACKENDS", f"names no replica, {form}")
    return tuple(backends)


def _backend(item: str, form: str) -> Backend:
    name, _, url = item.partition("=")
    if not _NAME.fullmatch(name):
        raise ConfigError("BACKENDS", f"{item!r} has no valid name (letters, digits, '.', '_' and '-'), {form}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("BACKENDS", f"{item!r} has an invalid address, {form}") from None
    if parts.hostname is not None and not _HOST.fullmatch(parts.hostname):
        raise ConfigError("BACKENDS", f"{item!r} has an invalid host name, {form}")
    if parts.scheme != "http" or not parts.hostname or parts.username is not None:
        raise ConfigError("BACKENDS", f"{item!r} is not of the form http://host:port")
    if port == 0:
        raise ConfigError("BACKENDS", f"{item!r} has port 0")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ConfigError("BACKENDS", f"{item!r} has a path, expected only http://host:port")
    port = port or 80
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Backend(name, f"http://{host}:{port}", parts.hostname, port)


def _whole(values: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
        raise ConfigError(name, f"must be a whole number from {low} to {high}, not {text!r}")
    return int(text)


def _seconds(values: Mapping[str, str], name: str, default: float, zero: bool = False) -> float:
    text = values.get(name)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        raise ConfigError(name, f"must be a number of seconds {'from' if zero else 'above'} 0, not {text!r}")
    return number


def _one_of(values: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    """Return the value of `name`; the first of `choices` is the default."""
    text = values.get(name, choices[0])
    if text not in choices:
        raise ConfigError(name, f"must be one of {', '.join(choices)}, not {text!r}")
    return text


def _state_dir(text: str | None) -> Path | None:
    if text is None:
        return None
    path = Path(text)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError("STATE_DIR", f"cannot create {text}: {error.strerror}") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise ConfigError("STATE_DIR", f"{text} is not writable")
    return path
