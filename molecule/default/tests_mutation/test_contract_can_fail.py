"""Each fault that once left a service dark after a reboot turns the check that guards against it red."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from contract import (
    CONTRACT,
    QUADLET_DIR,
    USER,
    as_user,
    containers_belong_to_units,
    default_target_wants_the_units,
    linger_is_on,
    unit_files_are_ours,
    units_are_active,
    units_are_generated,
)

testinfra_hosts = ["ansible://dankserver"]
UNIT = f"{QUADLET_DIR}/frank-medium-b.container"


@contextmanager
def without_linger(host) -> Iterator[None]:
    host.check_output(f"loginctl disable-linger {USER}")
    # The manager ends with it; the units have to come back before the next mutation.
    yield
    host.check_output(f"loginctl enable-linger {USER}")


@contextmanager
def edited_unit(host, edit: str) -> Iterator[None]:
    """Apply a sed expression to the unit file, reload, and put both back."""
    as_user(
        host, f"cp -p {UNIT} /tmp/unit.kept && sed -i -e {shlex.quote(edit)} {UNIT} && systemctl --user daemon-reload"
    )
    try:
        yield
    finally:
        as_user(host, f"cp --remove-destination -p /tmp/unit.kept {UNIT} && systemctl --user daemon-reload")


def wrong_target(host):
    return edited_unit(host, "s/^WantedBy=default.target/WantedBy=multi-user.target/")


def no_install_section(host):
    return edited_unit(host, "/^\\[Install\\]/,$d")


def unknown_key(host):
    return edited_unit(host, "s/^Network=host/NoSuchKey=host/")


@contextmanager
def symlinked_unit(host) -> Iterator[None]:
    as_user(host, f"mv {UNIT} /home/{USER}/elsewhere.txt && ln -s /home/{USER}/elsewhere.txt {UNIT}")
    try:
        yield
    finally:
        as_user(host, f"rm {UNIT} && mv /home/{USER}/elsewhere.txt {UNIT}")


@contextmanager
def container_without_a_unit(host) -> Iterator[None]:
    as_user(host, "podman run -d --name stray --network none --entrypoint sleep localhost/radiance-vllm:0.9.3 600")
    try:
        yield
    finally:
        as_user(host, "podman rm -f -t 0 stray")


@contextmanager
def stopped_unit(host) -> Iterator[None]:
    as_user(host, "systemctl --user stop frank-medium-b.service")
    try:
        yield
    finally:
        as_user(host, "systemctl --user start frank-medium-b.service")


@pytest.mark.parametrize(
    ("mutation", "guard"),
    [
        (wrong_target, default_target_wants_the_units),
        (no_install_section, default_target_wants_the_units),
        (unknown_key, units_are_generated),
        (symlinked_unit, unit_files_are_ours),
        (container_without_a_unit, containers_belong_to_units),
        (stopped_unit, units_are_active),
        (without_linger, linger_is_on),
    ],
    ids=lambda value: value.__name__,
)
def test_contract_turns_red(host, mutation, guard):
    assert guard in CONTRACT
    guard(host)
    with mutation(host), pytest.raises(AssertionError):
        guard(host)
