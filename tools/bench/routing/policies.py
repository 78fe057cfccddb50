"""Policies under test: the proxy's own, and variants that have to beat them before they may replace them."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from engine_simulator import card
from engine_simulator.kv_pool import block_names
from engine_simulator.tokens import Prompt
from routing_proxy.identity import Identity
from routing_proxy.routing import POLICIES, Decision, Router

SEATS = 4
"""Sequences in a batch of the deployed engine (MAXSEQS)."""


@dataclass(eq=False)
class Request:
    """A request as a policy sees it: what the proxy knows of it, and its tokens, which only a variant looks at."""

    identity: Identity
    prompt: Prompt
    new_tokens: int = field(default=0)
    """Prompt tokens that the chosen replica has to compute, as far as the policy can tell."""


class Policy:
    """One of the proxy's own policies, by its name. One object serves one run."""

    def __init__(self, name: str, replicas: Sequence[str]) -> None:
        self.name = name
        self.router = Router(name if name in POLICIES else "adaptive", replicas)
        self.in_flight = dict.fromkeys(replicas, 0)

    def choose(self, request: Request, replicas: Sequence[str]) -> str:
        """Return the replica for a request and count it as in flight there."""
        replica = self.pick(request, replicas)
        self.router.record(request.identity, replica)
        self.in_flight[replica] += 1
        return replica

    def pick(self, request: Request, replicas: Sequence[str]) -> str:
        """Return the replica for a request."""
        choice = self.router.choose(request.identity, replicas, self.in_flight)
        assert choice is not None, "no replica serves"
        return choice.replica

    def first_token(self, request: Request, replica: str) -> None:
        """The replica has computed the request's prompt."""

    def ended(self, request: Request, replica: str) -> None:
        """The replica has answered."""
        self.in_flight[replica] -= 1


class Spill(Policy):
    """Adaptive, but a continuation whose replica has a full batch goes to one that has a seat."""

    def __init__(self, replicas: Sequence[str]) -> None:
        super().__init__("spill", replicas)

    def pick(self, request: Request, replicas: Sequence[str]) -> str:
        choice = self.router.choose(request.identity, replicas, self.in_flight)
        assert choice is not None, "no replica serves"
        least = min(replicas, key=lambda name: self.in_flight[name])
        full = self.in_flight[choice.replica] >= SEATS > self.in_flight[least]
        return least if choice.decision is Decision.PINNED and full else choice.replica


class Lighter(Policy):
    """Adaptive, but what is spread goes to the replica that got fewest prompt tokens, older ones counting less.

    Tried on the cards (80k, 50k and 50k at once) and reverted: no turn was faster for it.
    """

    def __init__(self, replicas: Sequence[str]) -> None:
        super().__init__("lighter", replicas)
        self._tokens = dict.fromkeys(replicas, 0.0)

    def pick(self, request: Request, replicas: Sequence[str]) -> str:
        choice = self.router.choose(request.identity, replicas, self.in_flight)
        assert choice is not None, "no replica serves"
        replica = choice.replica
        if choice.decision is Decision.SPREAD:
            replica = min(replicas, key=lambda name: self._tokens[name])
        self._tokens = {name: 0.9 * tokens for name, tokens in self._tokens.items()}
        self._tokens[replica] += request.prompt.tokens
        return replica


class Shortest(Policy):
    """The replica with the shortest expected time to the first token: prompt tokens queued there and not computed yet,
    and those of this request that are not in the prefixes it served last (as many as its pool holds)."""

    def __init__(self, replicas: Sequence[str]) -> None:
        super().__init__("shortest", replicas)
        self._known: dict[str, OrderedDict[bytes, None]] = {name: OrderedDict() for name in replicas}
        self._queued = dict.fromkeys(replicas, 0)
        self._turn = dict.fromkeys(replicas, 0)

    def pick(self, request: Request, replicas: Sequence[str]) -> str:
        names = block_names(request.prompt.data, card.BLOCK_SIZE_FP32_STATE)
        new = {name: request.prompt.tokens - self._hit(name, names) for name in replicas}
        replica = min(
            replicas, key=lambda name: (self._queued[name] + new[name], self.in_flight[name], self._turn[name])
        )
        self._turn[replica] = max(self._turn.values()) + 1
        request.new_tokens = new[replica]
        self._queued[replica] += request.new_tokens
        known = self._known[replica]
        for block in names:
            known[block] = None
            known.move_to_end(block)
        while len(known) > card.KV_POOL_TOKENS // card.BLOCK_SIZE_FP32_STATE:
            known.popitem(last=False)
        return replica

    def first_token(self, request: Request, replica: str) -> None:
        self._queued[replica] -= request.new_tokens

    def _hit(self, replica: str, names: Sequence[bytes]) -> int:
        """Tokens of a prompt's leading blocks that the replica has seen."""
        known = self._known[replica]
        hit = next((index for index, name in enumerate(names) if name not in known), len(names))
        return hit * card.BLOCK_SIZE_FP32_STATE


VARIANTS: dict[str, Callable[[Sequence[str]], Policy]] = {"spill": Spill, "lighter": Lighter, "shortest": Shortest}


def make(name: str, replicas: Sequence[str]) -> Policy:
    """Return a fresh policy by its name."""
    return VARIANTS[name](replicas) if name in VARIANTS else Policy(name, replicas)
