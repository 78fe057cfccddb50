"""`python -m bench.proxy_soak`: kill replicas under load, print the books, exit 1 if a request is not accounted for."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from bench.proxy_overhead.peers import PROXY_PATH
from bench.proxy_overhead.processes import Child, ChildError, free_ports, python_env
from bench.proxy_overhead.report import table
from bench.proxy_soak.accounts import Ledger, read_ledger, violations
from bench.proxy_soak.load import Clients, Outcome
from bench.proxy_soak.replicas import NAMES, Replica, kill_in_turns, wait_up

HEALTH_INTERVAL = "0.5"  # seconds; the soak waits for replicas to be noticed, not for the default 2 s
SHOWN_VIOLATIONS = 20


@dataclass(frozen=True)
class Books:
    """Everything a soak knows at its end."""

    outcomes: list[Outcome]
    ledger: Ledger
    in_flight: float  # sum over the replicas in the proxy's own metrics, after the last request
    rss_mb: float
    seconds: float

    def violations(self) -> list[str]:
        """Return every breach of contract, one sentence each."""
        found = violations(self.outcomes, self.ledger)
        if self.in_flight != 0:
            found.append(f"the proxy still counts {self.in_flight:.0f} requests in flight at the end")
        return found


async def soak(requests: int, kills: int, workers: int, seed: int, scratch: Path) -> Books:
    """Run at least so many requests and kills through a proxy of our own; every child has ended on return."""
    (port,) = free_ports(1)
    replicas = [Replica(name, scratch) for name in NAMES]
    backends = ",".join(f"{replica.name}=http://127.0.0.1:{replica.port}" for replica in replicas)
    env = python_env(PROXY_PATH) | {"HOST": "127.0.0.1", "PORT": str(port), "BACKENDS": backends}
    env |= {"HEALTH_INTERVAL": HEALTH_INTERVAL, "STATE_DIR": str(scratch)}
    for replica in replicas:
        replica.start()
    proxy = Child("routing_proxy", [sys.executable, "-m", "routing_proxy"], env, scratch / "proxy.out")
    begin = time.monotonic()
    try:
        await asyncio.to_thread(proxy.wait_listening, port)
        base = f"http://127.0.0.1:{port}"
        outcomes = await _drive(base, replicas, requests, kills, workers, seed)
        in_flight = await _in_flight(base)
        rss = proxy.rss_mb()
    finally:
        for replica in replicas:
            replica.stop()
        proxy.stop()
    logs = {replica.name: replica.log.read_text().splitlines() for replica in replicas}
    ledger = read_ledger(logs, {replica.name: replica.kills for replica in replicas})
    return Books(outcomes, ledger, in_flight, rss, time.monotonic() - begin)


async def _drive(
    base: str, replicas: list[Replica], requests: int, kills: int, workers: int, seed: int
) -> list[Outcome]:
    """Run the clients until all kills are done and enough requests were made; return their outcomes."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await wait_up(session, base, len(replicas))
        clients = Clients(session, base, seed, requests)
        tasks = [asyncio.create_task(clients.work(worker)) for worker in range(workers)]
        try:
            await kill_in_turns(session, base, replicas, kills, random.Random(seed))
            await clients.enough.wait()
        finally:
            clients.stopping.set()
            await asyncio.gather(*tasks)
        return clients.outcomes


async def _in_flight(base: str) -> float:
    """Return the sum of routing_proxy_in_flight over the replicas; abandoned requests get a second to be noticed."""
    total = 0.0
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            async with session.get(f"{base}/metrics") as response:
                lines = (await response.text()).splitlines()
            total = sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("routing_proxy_in_flight{"))
            if total == 0:
                break
            await asyncio.sleep(0.05)
    return total


def summary(books: Books) -> str:
    """Return the tables of a soak: outcomes, what replicas did, and how conversations were routed."""
    outcomes = Counter(outcome.kind for outcome in books.outcomes)
    decisions = Counter(outcome.decision for outcome in books.outcomes if outcome.decision)
    copies = [copy for of_one in books.ledger.copies.values() for copy in of_one]
    again = sum(sum(not copy.refused for copy in of_one) > 1 for of_one in books.ledger.copies.values())
    replicas = [
        [
            name,
            str(len(books.ledger.kills[name])),
            str(sum(copy.replica == name and not copy.refused for copy in copies)),
            str(sum(copy.replica == name and copy.end is not None for copy in copies)),
            str(sum(copy.replica == name and copy.refused for copy in copies)),
        ]
        for name in sorted(books.ledger.kills)
    ]
    return "\n".join(
        [
            table("outcomes", ["outcome", "requests"], [[kind, str(count)] for kind, count in outcomes.most_common()]),
            table("replicas", ["replica", "kills", "started", "completed", "refused"], replicas),
            table(
                "decisions", ["decision", "answers"], [[name, str(count)] for name, count in decisions.most_common()]
            ),
            f"{len(books.outcomes)} requests in {books.seconds:.0f} s, {again} sent again after a replica died silent; "
            f"proxy {books.rss_mb:.1f} MB at the end.",
        ]
    )


def main() -> int:
    """Run the soak of the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.proxy_soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="at least so many (default %(default)s)")
    parser.add_argument("--kills", type=int, default=24, help="replicas killed, at least (default %(default)s)")
    parser.add_argument("--workers", type=int, default=24, help="clients at once (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the load and the kills (default %(default)s)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"proxy_soak: {options.kills} kills, about {options.kills * 2} s", file=sys.stderr, flush=True)
    try:
        with tempfile.TemporaryDirectory(prefix="proxy-soak-") as scratch:
            run = soak(options.requests, options.kills, options.workers, options.seed, Path(scratch))
            books = asyncio.run(run)
    except ChildError as error:
        print(f"proxy_soak: {error}", file=sys.stderr)
        return 2
    print(summary(books))
    found = books.violations()
    for sentence in found[:SHOWN_VIOLATIONS]:
        print(f"VIOLATION {sentence}")
    print(f"{len(found)} violations" if found else "every request is accounted for")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
