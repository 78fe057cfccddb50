"""After the way there and back everything that was ever installed is either in use or in the trash."""

from remains import trash

testinfra_hosts = ["ansible://dankserver"]


def test_the_retired_units_are_in_the_trash(host):
    """The unit of the second replica was deleted by hand before: it is the one that cannot be."""
    ours = {path.rsplit("/", 1)[1] for path, text in trash(host).items() if text.startswith("# Managed by frank-fleet")}
    units = {"frank-medium.container", "frank-medium-a.container", "frank-medium-proxy.container"}
    assert ours == {*units, "frank-medium-proxy.socket"}
