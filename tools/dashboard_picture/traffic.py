"""What the picture shows: a day of the fleet in half an hour, at the cards' own speed."""

import asyncio
import random

from bench.harness.endpoint import Client, Endpoint
from bench.harness.loops import Loop, Turn, run
from bench.routing.fleet import MODEL, SimulatedFleet
from bench.routing.workloads import document

DOWN_SECONDS = 60.0
"""How long the killed replica stays down: long enough to be seen, shorter than a load on the cards (150 s)."""


def script(seconds: float, seed: int = 7) -> list[Loop]:
    """Return the loops of a run: agents and questions throughout, a burst, and a stretch of more than the pools hold.

    A third of the way sixteen prompts arrive at once; from 55 to 80 % one conversation of 80k tokens and two of 50k
    share the cards, which evict each other. Each loop ends with the run.
    """
    rng = random.Random(seed)
    end = 0.97 * seconds
    loops = []
    for number in range(max(3, round(seconds / 60))):
        text = document(f"agent {number}", rng.randrange(12_000, 32_000))
        start = rng.uniform(0, 0.9 * seconds)
        loops.append(
            Loop(f"agent-{number}", document=text, turns=5, question=1200, answer_tokens=220, start=start, until=end)
        )
    for number in range(max(4, round(seconds / 12))):
        text = document(f"question {number}", rng.randrange(300, 3000))
        loops.append(Loop(f"question-{number}", document=text, answer_tokens=160, start=rng.uniform(0, end)))
    head = document("shared head", 11_300)
    for number in range(16):
        text = head + document(f"burst {number}", 3600)
        loops.append(Loop(f"burst-{number}", document=text, start=0.33 * seconds))
    for name, size in {"heavy": 80_000, "medium-1": 50_000, "medium-2": 50_000}.items():
        loops.append(
            Loop(
                name, document=document(name, size), turns=40, answer_tokens=200,
                start=0.55 * seconds, until=0.78 * seconds,
            )
        )  # fmt: skip
    return loops


async def play(fleet: SimulatedFleet, seconds: float) -> list[Turn]:
    """Serve the script; a replica dies at 88 % and comes back. Return the turns."""
    async with Client(Endpoint(fleet.url, MODEL), ignore_eos=True) as client:
        serving = asyncio.create_task(run(client, script(seconds)))
        await asyncio.wait({serving}, timeout=0.88 * seconds)
        fleet.kill(fleet.names[-1])
        await asyncio.sleep(min(DOWN_SECONDS, 0.05 * seconds))
        fleet.restart(fleet.names[-1])
        return await serving
