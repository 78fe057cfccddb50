"""The bounded records: order of use, limit, counts."""

import tracemalloc
from collections import OrderedDict

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from routing_proxy.records import Records

names = st.sampled_from(["a", "b"])
keys = st.sampled_from([b"1", b"2", b"3", b"4", b"5"])
steps = st.lists(
    st.tuples(st.just("put"), keys, names, keys) | st.tuples(st.just("get"), keys) | st.tuples(st.just("forget"), names)
)


def test_a_record_is_found_until_another_takes_its_place() -> None:
    records = Records(10)
    assert records.get(b"k") is None
    records.put(b"k", "a", b"c")
    records.put(b"k", "b", b"c")
    assert records.get(b"k") == "b"
    assert (len(records), records.conversations("a"), records.conversations("b")) == (1, 0, 1)


def test_a_replica_nobody_heard_of_has_nothing() -> None:
    records = Records(10)
    records.forget("nobody")
    assert records.conversations("nobody") == 0


def test_entries_can_be_restored_in_their_order_up_to_the_limit() -> None:
    records = Records(3)
    for key in (b"1", b"2", b"3"):
        records.put(key, "a", b"c")
    records.get(b"1")
    entries = records.entries()
    assert [key for key, _, _ in entries] == [b"2", b"3", b"1"]
    smaller = Records(2)
    smaller.restore(entries)
    assert smaller.entries() == entries[1:]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limit=st.integers(1, 4), steps=steps)
def test_records_behave_like_a_list_in_order_of_use(limit: int, steps: list[tuple[str, bytes, str, bytes]]) -> None:
    records = Records(limit)
    model: OrderedDict[bytes, tuple[str, bytes]] = OrderedDict()
    for step, *arguments in steps:
        if step == "put":
            key, replica, conversation = arguments
            records.put(key, replica, conversation)
            model[key] = (replica, conversation)
            model.move_to_end(key)
            while len(model) > limit:
                model.popitem(last=False)
        elif step == "get":
            (key,) = arguments
            assert records.get(key) == model.get(key, (None,))[0]
            if key in model:
                model.move_to_end(key)
        else:
            (replica,) = arguments
            records.forget(replica)
            model = OrderedDict((key, entry) for key, entry in model.items() if entry[0] != replica)
        assert records.entries() == [(key, *entry) for key, entry in model.items()]
        for replica in ("a", "b"):
            assert records.conversations(replica) == len({entry[1] for entry in model.values() if entry[0] == replica})


def test_memory_stays_flat_once_the_limit_is_reached() -> None:
    records = Records(1000)

    def fill(start: int) -> int:
        for number in range(start, start + 5000):
            records.put(number.to_bytes(16), "a", number.to_bytes(16))
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        full = fill(0)
        assert full < 1000 * 500
        assert fill(5000) < full * 1.2
    finally:
        tracemalloc.stop()
