#!/usr/bin/python
"""Module: does PCIe carry AtomicOps between each AMD GPU and the processor?"""

from __future__ import annotations

DOCUMENTATION = r"""
module: pcie_atomics_info
author: frank-fleet developers
version_added: 1.0.0
short_description: Tell whether PCIe AtomicOps work between each AMD GPU and the processor
description:
  - ROCm launches some kernels, RCCL's among them, only on a GPU that may send PCIe AtomicOps to the processor. Whether
    it may is a property of the slot. A GPU behind a chipset serves alone without a fault, and fails at the first
    collective of a tensor-parallel engine.
  - Walks from each discrete AMD GPU up to its root port and returns one verdict, V(ok), V(missing) or V(unknown), with
    the hop and the bit that decided it and what can be done about it.
  - Sources, the most trusted first, are the link flags of KFD's topology (C(kfd)), the PCI configuration space
    (C(config)), lines of the kernel log (C(kernel_log)) and text of C(lspci -vvv) (C(lspci)). The first that knows
    decides; what the others say differently is returned in C(disagreements).
  - What can't be read is V(unknown), never V(ok) and never V(missing). Configuration space beyond its first 64 bytes
    can be read by root only, so run this with C(become) for the names of the hops; the verdict itself needs no root
    where amdgpu is loaded.
  - Processor graphics and audio functions are listed in C(ignored) and have no verdict.
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    details: Reads only, and changes nothing in either mode.
  diff_mode:
    support: none
  platform:
    support: full
    platforms: linux
options:
  root:
    description:
      - Folder that holds C(sys), normally V(/). May be a tree captured on another machine.
      - A captured tree may also hold C(kernel.log) and C(lspci.txt), which are read when O(kernel_log) and O(dump) are
        not given.
      - Without this option V(/) is read, unless O(dump) is given, which is then analysed alone.
    type: path
  dump:
    description:
      - File with the output of C(lspci -vvv) of any version of pciutils, or of C(lspci -xxx), whose numbers are decoded
        as configuration space. Read on the host where the module runs; delegate to V(localhost) for a file on the
        controller.
      - Capture as root and without C(-s), or registers and bridges are not in it.
    type: path
  kernel_log:
    description:
      - File with the kernel log.
      - Without this option the running kernel's log is asked for (C(journalctl), then C(dmesg)) when O(root) is V(/).
    type: path
"""

EXAMPLES = r"""
- name: Look at the PCIe paths of this host
  frank.fleet.pcie_atomics_info:
  become: true
  register: pcie

- name: Show them
  ansible.builtin.debug:
    msg: "{{ pcie | frank.fleet.pcie_report }}"

- name: Analyse a file that somebody sent (captured with sudo lspci -vvv)
  frank.fleet.pcie_atomics_info:
    dump: /tmp/lspci.txt
  delegate_to: localhost
"""

RETURN = r"""
verdict:
  description: V(missing) if any GPU's is, else V(unknown) if any is or no GPU was found, else V(ok).
  returned: always
  type: str
  sample: missing
reason:
  description: How many GPUs got which verdict.
  returned: always
  type: str
  sample: "PCIe AtomicOps of 2 GPUs: 1 ok, 1 missing"
verdicts:
  description: Verdict of each GPU by its address.
  returned: always
  type: dict
  sample: {"0000:03:00.0": "ok", "0000:0b:00.0": "missing"}
gpus:
  description: Discrete AMD GPUs in KFD's order, those without a KFD node last.
  returned: always
  type: list
  elements: dict
  contains:
    address:
      description: PCI address with its domain.
      type: str
      sample: "0000:0b:00.0"
    ids:
      description: PCI vendor and device id.
      type: str
      sample: "1002:7551"
    name:
      description: Name, where an lspci text gave one.
      type: str
    kind:
      description: V(dgpu), V(vf) (SR-IOV virtual function), or V(unresponsive) (reads as all ones, may be a GPU).
      type: str
    driver:
      description: Driver that holds the GPU.
      type: str
      sample: amdgpu
    render_node:
      description: Device file for computing.
      type: str
      sample: /dev/dri/renderD129
    kfd_node:
      description: Number of the KFD topology node.
      type: int
    requester_enabled:
      description: Whether the driver turned on the GPU's AtomicOps (ReqEn).
      type: bool
    verdict:
      description: V(ok), V(missing) or V(unknown).
      type: str
    reason:
      description: Why, in one line.
      type: str
      sample: 0b:00.0 sits behind 05:00.0 and 06:09.0, which do not route AtomicOps
    fix:
      description: What to do about it; none when the verdict is V(ok).
      type: str
      sample: no software can change that; move the card to a CPU slot, or run one replica on each GPU
    deciding:
      description: The bit that decided a V(missing), else none.
      type: dict
      contains:
        source:
          description: Source that shows it.
          type: str
        hop:
          description: Address of the hop, the one nearest to the processor when there are several.
          type: str
        register:
          description: Register or file that holds the bit.
          type: str
        bit:
          description: The bit and its value.
          type: str
        hops:
          description: All hops at fault, from the processor to the GPU.
          type: list
          elements: str
    chain:
      description:
        - Bridges from the GPU to the root port, each with C(address), C(ids), C(port), C(routing), C(completer32),
          C(completer64), C(egress_blocked) and C(status). A bit that could not be read is none.
      type: list
      elements: dict
    sources:
      description: What each source that was consulted says, with C(source), C(verdict) and C(detail).
      type: list
      elements: dict
    disagreements:
      description: Where sources, or the path and the driver, contradict each other.
      type: list
      elements: str
ignored:
  description: AMD processor graphics and audio functions, each with C(address), C(ids) and C(kind).
  returned: always
  type: list
  elements: dict
"""

from pathlib import Path
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.frank.fleet.plugins.module_utils import pcie_kfd, pcie_log, pcie_lspci, pcie_sysfs
from ansible_collections.frank.fleet.plugins.module_utils.pcie_files import read_text
from ansible_collections.frank.fleet.plugins.module_utils.pcie_verdict import Evidence, analyse

_LOG_COMMANDS = (["journalctl", "--dmesg", "--boot", "--no-pager", "--output=short"], ["dmesg"])


def gather(module: AnsibleModule) -> Evidence:
    """Read every source the options name."""
    root, dump, kernel_log = (module.params[name] for name in ("root", "dump", "kernel_log"))
    evidence = Evidence()
    if root or not dump:
        folder = Path(root or "/")
        if not (folder / "sys").is_dir():
            module.fail_json(msg=f"root: {folder} holds no folder named sys; give the folder above it")
        evidence.sysfs = pcie_sysfs.read_functions(folder)
        evidence.topology = pcie_kfd.read_topology(folder)
        dump = dump or _if_present(folder / "lspci.txt")
        kernel_log = kernel_log or _if_present(folder / "kernel.log")
        if kernel_log is None and folder == Path("/"):
            log = _running_log(module)
            evidence.log = None if log is None else pcie_log.parse(log)
    if kernel_log:
        evidence.log = pcie_log.parse(_read_option(module, "kernel_log", kernel_log))
    if dump:
        evidence.dump = pcie_lspci.parse(_read_option(module, "dump", dump))
        if not evidence.dump.functions:
            module.fail_json(msg=f"dump: {dump} is no lspci output; capture it with: sudo lspci -vvv > FILE")
    return evidence


def _if_present(path: Path) -> Optional[str]:
    return str(path) if path.is_file() else None


def _read_option(module: AnsibleModule, option: str, path: str) -> str:
    text = read_text(Path(path))
    if text is None:
        module.fail_json(msg=f"{option}: {path} can't be read on this host")
    return text or ""


def _running_log(module: AnsibleModule) -> Optional[str]:
    """Return the running kernel's log, None when this user may not read it."""
    for command in _LOG_COMMANDS:
        executable = module.get_bin_path(command[0])
        if executable:
            status, output, _ = module.run_command([executable, *command[1:]], errors="replace")
            if status == 0 and output:
                return output
    return None


def main() -> None:
    """Run the module."""
    options: dict[str, Any] = {name: {"type": "path"} for name in ("root", "dump", "kernel_log")}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    module.exit_json(changed=False, **analyse(gather(module)))


if __name__ == "__main__":
    main()
