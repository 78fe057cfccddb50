"""A prediction (--check) on a fresh host left it as it was."""

from contract import USER

testinfra_hosts = ["ansible://dankserver"]


def test_the_user_is_as_before(host):
    assert set(host.user(USER).groups).isdisjoint({"render", "video"})
    assert not host.file(f"/var/lib/systemd/linger/{USER}").exists


def test_the_home_has_nothing_of_ours(host):
    for folder in (".config", ".local", ".cache/frank-fleet", ".cache/huggingface", ".AGENTTRASH"):
        assert not host.file(f"/home/{USER}/{folder}").exists, folder
