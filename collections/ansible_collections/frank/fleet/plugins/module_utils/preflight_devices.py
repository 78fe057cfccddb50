"""Does the service user get to the GPUs that the engines are given?"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from typing import Any

from ansible_collections.frank.fleet.plugins.module_utils.pcie_address import short
from ansible_collections.frank.fleet.plugins.module_utils.preflight_host import ENTER, GIB, READ_WRITE, Host, Identity
from ansible_collections.frank.fleet.plugins.module_utils.preflight_report import Report

_DRIVER = "sudo modprobe amdgpu && sudo dmesg | grep -iE 'amdgpu|kfd'   (it says why the card was not taken)"

_UDEV_RULE = (
    """echo 'KERNEL=="kfd|renderD*", GROUP="render", MODE="0660"' | sudo tee /etc/udev/rules.d/70-gpu.rules """
    "&& sudo udevadm control --reload && sudo udevadm trigger"
)


def check_devices(
    host: Host, user: Identity, devices: list[str], engines: list[dict], pcie: Mapping[str, Any], report: Report
) -> None:
    """Look at the device files that every engine gets, and at the render node of each engine's GPUs.

    `engines` are those of a plan; `pcie` is the result of frank.fleet.pcie_atomics_info, whose GPUs are in the order
    that HIP_VISIBLE_DEVICES counts. Without `devices` the engines need no GPU and none is looked for.
    """
    if not devices:
        report.row("GPUs", "none looked for: the inventory gives the engines no devices")
        return
    paths = list(devices)
    shown = []
    for engine in engines:
        for index in map(int, engine["visible_devices"].split(",")):
            gpu = _gpu(engine["name"], index, pcie["gpus"], report)
            if gpu:
                paths.append(gpu["render_node"])
                shown.append(f"{index} {short(gpu['address'])} {gpu['render_node']} for {engine['name']}")
    _check_files(host, user, list(dict.fromkeys(paths)), report)
    _warn_about_order(pcie, report)
    if len(pcie["gpus"]) > 1 and "iommu=pt" not in host.read("/proc/cmdline").split():
        report.warn(
            "iommu=pt is not on the kernel's command line; AMD asks for it with several GPUs. Add it to "
            "GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then sudo update-grub and reboot"
        )
    report.row("GPUs", "; ".join(shown) or "none")


def check_memory(host: Host, checkpoints: list[str], report: Report) -> None:
    """Warn when the checkpoints, one for each engine, are larger than the host's memory.

    Reported for 16 GB hosts with two R9700: the kernel kills an engine while it loads, which looks like a GPU fault.
    """
    line = next((line for line in host.read("/proc/meminfo").splitlines() if line.startswith("MemTotal:")), "")
    total = int(line.split()[1]) * 1024 / GIB if line else 0
    sizes = [sum(file.stat().st_size for file in host.path(path).glob("*") if file.is_file()) for path in checkpoints]
    needed = sum(sizes) / GIB
    if total and needed > total:
        report.warn(
            f"the engines load {needed:.0f} GiB of checkpoints through {total:.0f} GiB of memory; "
            "if the kernel kills one while it loads (journalctl -k -g oom), add memory or swap"
        )


def _gpu(engine: str, index: int, gpus: list[dict], report: Report) -> dict | None:
    """The GPU an engine is given, None after a fault that says why it has none."""
    if index >= len(gpus):
        report.fault(
            f"{engine} is given GPU {index}, but this host has {len(gpus)}",
            "llm_fleet in the inventory; /sys/bus/pci/devices",
            "an engine without its GPU ends with hipErrorNoDevice",
            "lspci -nn -d 1002:   (is the card seen at all?), or give the engine an index from 0 to the last card's",
        )
        return None
    gpu = gpus[index]
    if gpu["driver"] != "amdgpu" or gpu["kfd_node"] is None or not gpu["render_node"]:
        lacks = "its driver is " + (gpu["driver"] or "missing")
        if gpu["driver"] == "amdgpu":
            lacks = (
                "the driver made no compute node (KFD) for it" if gpu["kfd_node"] is None else "it has no render node"
            )
        report.fault(
            f"GPU {index} ({short(gpu['address'])}) of {engine} cannot compute: {lacks}",
            f"/sys/bus/pci/devices/{gpu['address']}",
            "ROCm does not see such a card, and the indices of the cards after it shift",
            _DRIVER,
        )
        return None
    return gpu


def _check_files(host: Host, user: Identity, paths: list[str], report: Report) -> None:
    there = []
    for path in paths:
        if host.path(path).exists():
            there.append(path)
            continue
        report.fault(
            f"{path} does not exist",
            path,
            "podman refuses to start a container that is given a device which is not there",
            _DRIVER,
        )
    modes = [(path, ENTER if host.path(path).is_dir() else READ_WRITE) for path in there]
    for path in host.denied(user, modes):
        found = host.path(path).stat()
        group = host.group_name(found.st_gid)
        readable = stat.S_IMODE(found.st_mode) & 0o060 == 0o060 and group != "root"
        report.fault(
            f"{user.name} may not open {path}",
            host.shown(path),
            "the engine runs with the rights of this user and would find no GPU",
            f"add {group} to service_user_groups in the inventory (or now: sudo usermod -aG {group} {user.name})"
            if readable
            else _UDEV_RULE,
        )


def _warn_about_order(pcie: Mapping[str, Any], report: Report) -> None:
    """HIP counts processor graphics too: before a card it shifts every index, after all cards it does no harm."""
    cards = [gpu["address"] for gpu in pcie["gpus"]]
    for ignored in pcie["ignored"]:
        if ignored["kind"] == "igpu" and cards and ignored["address"] < max(cards):
            report.warn(
                f"processor graphics at {short(ignored['address'])} come before a card, and HIP counts them too: check "
                "with rocminfo that the indices in llm_fleet mean the cards, or turn them off in the BIOS"
            )
