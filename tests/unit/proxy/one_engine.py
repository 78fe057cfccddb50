"""One engine behind one proxy, for tests that look at what goes through unchanged."""

from proxy_process import ProxyProcess
from stub_engine import Received, StubEngine


class Fleet:
    def __init__(self, engine: StubEngine, proxy: ProxyProcess) -> None:
        self.engine = engine
        self.proxy = proxy

    def sent(self, raw: bytes) -> Received:
        """Send raw bytes; return the request the engine got."""
        self.proxy.client().send(raw).read("HEAD" if raw.startswith(b"HEAD") else "POST")
        return self.engine.wait_for(1)[0]

    def status(self, raw: bytes) -> int:
        """Send raw bytes; return the status of the answer, after which the connection must end if it is a refusal."""
        client = self.proxy.client().send(raw)
        answer = client.read()
        if answer.status >= 400:
            assert answer.json()["error"]["code"] == answer.status
            assert client.read_to_end() == b""
        return answer.status
