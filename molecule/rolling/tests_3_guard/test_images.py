"""An image that cannot be had ends the deploy before anything stops; what ran before keeps a name."""

import pytest
from contract import as_user
from deploying import deploy, refused
from engines import SLOW, TAG, new_image, restarted, started

ABSENT = "127.0.0.1:1/nobody/nothing:1"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"image_retag_source": ABSENT, "image_retag_pull": True}, "connection refused"),
        ({"image_retag_source": ABSENT}, "holds no 127.0.0.1:1/nobody/nothing:1"),
        ({"image_retag_source": ABSENT, "image_retag_archive": "/nowhere.tar"}, "is not on this host"),
        ({"image_retag_image_id": "0" * 64}, "the inventory wants"),
    ],
    ids=["registry down", "another archive", "no archive", "another image"],
)
def test_the_deploy_ends_before_anything_stops(host, wanted, words):
    before, tagged = started(host), as_user(host, f"podman image inspect --format '{{{{.Id}}}}' {TAG}")
    assert words in refused(vllm_replica_environment_extra=SLOW, **wanted)
    assert restarted(host, before) == []
    assert as_user(host, f"podman image inspect --format '{{{{.Id}}}}' {TAG}") == tagged


def test_no_prune_takes_the_image_to_go_back_to(host):
    old = as_user(host, f"podman image inspect --format '{{{{.Id}}}}' {TAG}")
    new_image(host, "pruned")
    deploy(vllm_replica_environment_extra=SLOW)
    as_user(host, "podman image prune --force")
    assert as_user(host, f"podman image inspect --format '{{{{.Id}}}}' {TAG}-previous") == old
