"""The adaptive policy against a model that keeps every served list of messages as it is."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from routing_proxy.identity import Identity
from routing_proxy.routing import Decision, Router

REPLICAS = ("a", "b", "c")
Chat = tuple[str, ...]

chats = st.lists(st.sampled_from("xyz"), min_size=1, max_size=6).map(tuple)
subsets = st.sets(st.sampled_from(REPLICAS)).map(lambda names: [name for name in REPLICAS if name in names])
loads = st.dictionaries(st.sampled_from(REPLICAS), st.integers(0, 3))


def identity(chat: Chat) -> Identity:
    boundaries = tuple("".join(chat[:end]).encode() for end in range(1, len(chat) + 1))
    return Identity(None, None, boundaries, boundaries[0], None, len(chat) > 2)


class Conversations(RuleBasedStateMachine):
    """Requests of all kinds against any set of serving replicas, restarts and a restart of the proxy itself."""

    def __init__(self) -> None:
        super().__init__()
        self.router = Router("adaptive", REPLICAS)
        self.served: dict[Chat, str] = {}

    def _expected(self, chat: Chat) -> str | None:
        earlier = [chat[:end] for end in range(len(chat) - 1, 0, -1)]
        return next((self.served[prefix] for prefix in earlier if prefix in self.served), None)

    @rule(chat=chats, serving=subsets, load=loads)
    def request(self, chat: Chat, serving: list[str], load: dict[str, int]) -> None:
        """Any list of messages: a first turn, a continuation, a fork, an edit, a repetition."""
        choice = self.router.choose(identity(chat), serving, load)
        if choice is None:
            assert not serving
            return
        assert choice.replica in serving
        home = self._expected(chat)
        if home in serving:
            assert (choice.replica, choice.decision) == (home, Decision.PINNED)
        elif home is not None:
            assert choice.decision == Decision.FAILOVER
        else:
            assert choice.decision == (Decision.PINNED if len(chat) > 2 else Decision.SPREAD)
        if choice.decision in (Decision.SPREAD, Decision.FAILOVER):
            assert load.get(choice.replica, 0) == min(load.get(name, 0) for name in serving)
        self.router.record(identity(chat), choice.replica)
        self.served[chat] = choice.replica

    @rule(replica=st.sampled_from(REPLICAS))
    def restart_of_a_replica(self, replica: str) -> None:
        """Its cache is gone, the others' is not."""
        self.router.forget(replica)
        self.served = {chat: name for chat, name in self.served.items() if name != replica}

    @rule()
    def restart_of_the_proxy(self) -> None:
        """All that is on record survives."""
        snapshot = self.router.dump()
        self.router = Router("adaptive", REPLICAS)
        self.router.load(snapshot)

    @invariant()
    def pins_count_conversations(self) -> None:
        """A conversation is at a replica as long as any of its turns is."""
        for replica in REPLICAS:
            assert self.router.pins(replica) == len({chat[0] for chat, name in self.served.items() if name == replica})


TestConversations = Conversations.TestCase
TestConversations.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
