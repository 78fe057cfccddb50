"""From the inventory's fleets to the jobs that Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.frank.fleet.plugins.module_utils.fleet import asking_for, draft
from ansible_collections.frank.fleet.plugins.module_utils.fleet_check import FleetError, faults_of
from ansible_collections.frank.fleet.plugins.module_utils.pcie_shape import REPLICAS, TP2


def scrape_jobs(
    fleets: dict[str, dict], addresses: dict[str, str], shapes: dict[str, str] | None = None, names: Sequence[str] = ()
) -> list[dict]:
    """The scrape jobs of all hosts: `<fleet>` for its engines and `<fleet>-proxy` for its proxies.

    `fleets` is host -> the fleet it belongs to, `addresses` host -> its address, `shapes` host -> a shape that is asked
    for there instead of the fleet's. Nobody looks at PCIe from here: `auto` is taken for replicas. `names` are fleets
    that have a job even without a host. Raises FleetError where a description has faults or a host no address.
    """
    engines: dict[str, list[dict]] = {name: [] for name in names}
    proxies: dict[str, list[dict]] = {}
    for host in sorted(fleets):
        fleet = asking_for(fleets[host], (shapes or {}).get(host))
        faults = faults_of(fleet, host)
        if faults:
            raise FleetError(faults)
        if not addresses.get(host):
            raise FleetError([f"no address for host {host}: give its ansible_host in the inventory"])
        plan = draft(fleet, host, TP2 if fleet["shape"] == TP2 else REPLICAS, addresses)
        name = fleet["name"]
        engines.setdefault(name, [])
        for engine in plan["engines"]:
            engines[name].append(
                _target(addresses[host], engine["port"], fleet=name, replica=engine["name"], host=host)
            )
        if plan["proxy"]:
            target = _target(addresses[host], plan["proxy"]["port"], fleet=name, host=host)
            proxies.setdefault(f"{name}-proxy", []).append(target)
    return [{"job_name": job, "static_configs": targets} for job, targets in sorted({**engines, **proxies}.items())]


def _target(address: str, port: int, **labels: str) -> dict:
    return {"targets": [f"[{address}]:{port}" if ":" in address else f"{address}:{port}"], "labels": labels}
