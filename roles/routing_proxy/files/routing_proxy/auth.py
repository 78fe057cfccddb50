"""Bearer keys from a file."""

import hmac
from pathlib import Path

from . import log
from .config import ConfigError
from .http1 import Request


class Keys:
    """The keys that open the endpoint: one a line in a file, `#` for comments. The file is read again on change."""

    def __init__(self, path: Path) -> None:
        """Read the keys; ConfigError when there are none or the file can't be read."""
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self._trouble = ""
        try:
            self._keys = self._read()
        except (OSError, ValueError) as error:
            raise ConfigError("API_KEYS_FILE", _problem(path, error)) from None

    def accept(self, request: Request) -> bool:
        """Tell whether a request carries a key, as a Bearer token or, as Anthropic's clients send it, in x-api-key."""
        scheme, _, token = request.noted.get(b"authorization", b"").partition(b" ")
        offered = token.strip() if scheme.lower() == b"bearer" else request.noted.get(b"x-api-key", b"")
        # Every key is compared, in constant time, so that timing tells nothing.
        return sum(hmac.compare_digest(offered, key) for key in self._keys) > 0

    def reload(self, force: bool = False) -> None:
        """Read the file again if it changed; keep the old keys when it can't be used."""
        try:
            if not force and self._stat() == self._stamp:
                return
            self._keys = self._read()
        except (OSError, ValueError) as error:
            trouble = _problem(self._path, error)
            if trouble != self._trouble:
                log.say(f"API_KEYS_FILE: {trouble}, the keys read before stay valid")
            self._trouble = trouble
            return
        self._trouble = ""
        log.say(f"API keys read again, {len(self._keys)} in use")

    def _stat(self) -> tuple[int, int, int]:
        stat = self._path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _read(self) -> tuple[bytes, ...]:
        self._stamp = self._stat()
        lines = [line.partition(b" #")[0].strip() for line in self._path.read_bytes().splitlines()]
        keys = tuple(line for line in lines if line and not line.startswith(b"#"))
        if not keys:
            raise ValueError("holds no key")
        return keys


def _problem(path: Path, error: OSError | ValueError) -> str:
    return f"cannot read {path}: {error.strerror}" if isinstance(error, OSError) else f"{path} {error}"
