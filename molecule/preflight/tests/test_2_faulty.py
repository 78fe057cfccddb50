"""A dozen faults at once: each is in the report with its fix, the play fails once, and nothing was changed."""

import json

import pytest
import yaml
from conftest import PROJECT

testinfra_hosts = ["ansible://dankserver"]

PLANT = r"""
set -eu
# Software
mv /usr/bin/getsubids /usr/bin/flock /root/
printf '#!/bin/sh\necho podman version 4.9.3\n' > /usr/local/bin/podman
chmod 0755 /usr/local/bin/podman
mv /usr/lib/systemd/user-generators/podman-user-generator /root/
printf '[engine]\nruntime = "runc"\n' > /etc/containers/containers.conf.d/99-runc.conf
# The user: few ids, and a manager that is older than the groups, with a container
sed -i 's/^dank:.*/dank:100000:1000/' /etc/subuid
systemctl start user@1000
cp /usr/bin/sleep /usr/local/bin/conmon
systemd-run --quiet --uid=dank --unit=serves /usr/local/bin/conmon 600
# Devices: one that only root may open, one that is not there
mkdir -p /dev/dri
mknod -m 0600 /dev/kfd c 1 3
mknod -m 0666 /dev/dri/renderD128 c 1 3
# A port: held by a unit of somebody else's
systemd-run --quiet --unit=squatter python3 -m http.server 7770
# Folders: one is missing, one is empty, one holds what only root may read
rmdir /models/Qwen3.8-27B-DFlash2-FP8
install -m 0600 /dev/null /patches/secret.py
"""

#: what, and its fix
EXPECTED = {
    "GPU 0 of dankserver is given to 2 replicas": "correct it in inventory/group_vars",
    "shape tp2 is refused on this host": "move the card to a CPU slot",
    "/dev/dri/renderD129 does not exist": "sudo modprobe amdgpu",
    "dank may not open /dev/kfd": "sudo udevadm trigger",
    "getsubids is not installed": "sudo apt-get install uidmap",
    "flock is not installed": "sudo apt-get install util-linux",
    "podman is 4.9.3, needed is 5.4 or newer": "upgrade podman",
    "podman's Quadlet generator is not installed": "sudo apt-get install --reinstall podman",
    "podman would run containers with runc": "sudo apt-get install crun",
    "dank has 1000 subordinate ids, wanted are 65536": "sudo usermod --add-subuids",
    "the running manager of dank lacks the group(s) render video": "sudo systemctl restart user@1000.service",
    "port 7770 of frank-medium is taken": "sudo systemctl disable --now squatter.service",
    "/models/Qwen3.8-27B-DFlash2-FP8 is not a folder on this host": "sudo mount --all",
    "/models/Qwen3.8-27B-Uncensored-MXFP4-awq is empty": "findmnt --target",
    "/r4d is empty": "findmnt --target /r4d",
    "dank may not read /patches/secret.py": "sudo chmod -R a+rX /patches",
    "GiB are free where 1000001 GiB are needed": "podman image prune",
}


def fleet(**changes) -> dict:
    """The production fleet with some keys changed."""
    text = (PROJECT / "inventory/group_vars/frank_medium/fleet.yml").read_text()
    return {**yaml.safe_load(text)["llm_fleet"], **changes}


def extra(**variables) -> tuple[str, str]:
    """Extra variables for ansible-playbook."""
    return ("-e", json.dumps(variables))


ASKED = extra(
    llm_fleet=fleet(
        shape="tp2",
        replicas=[
            {"name": "frank-medium-a", "gpu": 0, "port": 7771},
            {"name": "frank-medium-b", "gpu": 0, "port": 7772},
        ],
    ),
    vllm_replica_devices=["/dev/kfd", "/dev/dri"],
    host_preflight_pcie_root="/srv/pcie/am5",
    host_preflight_may_be_empty=["/models/elsewhere"],
    host_preflight_image_gib=1000000,
)


@pytest.fixture(scope="module")
def faulty(host):
    """Plant the faults."""
    host.check_output("bash -c %s", PLANT)


@pytest.fixture(scope="module")
def report(faulty, playbook) -> str:
    """What an operator reads, unwrapped."""
    result = playbook("playbooks/preflight.yml", *ASKED)
    assert result.returncode != 0
    return " ".join(result.stdout.split())


def test_there_is_no_fault_beside_the_planted_ones(report):
    assert f"dankserver is not ready: {len(EXPECTED)} faults. Nothing was changed." in report


@pytest.mark.parametrize("what", EXPECTED)
def test_each_fault_is_named_with_its_fix(report, what):
    assert what in report
    block = report.split(what, 1)[1].split(" fix: ", 1)
    assert " where: " in block[0] and " why: " in block[0]
    assert EXPECTED[what] in block[1][:250]


def test_a_warning_is_listed_too(report):
    assert "iommu=pt is not on the kernel's command line" in report


def test_a_deploy_stops_once_and_before_any_change(faulty, playbook, listing):
    before = listing()
    result = playbook("site.yml", *ASKED)
    assert result.returncode != 0
    assert result.stdout.count("fatal: [dankserver]") == 1
    assert "service_user" not in result.stdout
    assert "changed=0" in result.stdout
    assert listing() == before


def test_check_mode_goes_through_on_an_empty_host(faulty, playbook, host, listing):
    host.check_output("rm /usr/bin/podman /usr/local/bin/podman /usr/bin/crun")
    before = listing()
    result = playbook("site.yml", "--check", "-e", "llm_user=newcomer")
    assert result.returncode == 0, result.stdout
    assert "podman is not installed" in result.stdout
    assert listing() == before
