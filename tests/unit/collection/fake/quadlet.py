"""Stands in for Podman's generator: knows [Install], the key Memory= (unknown to it), and lines that are no lines."""

import os
import sys
from pathlib import Path

STAGE, OUTPUT = Path(os.environ["QUADLET_UNIT_DIRS"]), Path(sys.argv[-1])
units = sorted(STAGE.rglob("*.container"))
code = 0
for unit in units:
    print(f"quadlet-generator[1]: Loading source unit file {unit}", file=sys.stderr)
    if "nonsense" in unit.read_text():
        print(f'quadlet-generator[1]: error loading "{unit}", file contains line 1: nonsense', file=sys.stderr)
        sys.exit(1)
for unit in units:
    text = unit.read_text()
    if "Memory=" in text:
        print(f"converting \"{unit.name}\": unsupported key 'Memory' in group 'Container' in {unit}", file=sys.stderr)
        code = 1
        continue
    if "Image=short" in text:
        print(f"Warning: {unit.name} specifies the image short which is not a fully qualified name", file=sys.stderr)
    service = OUTPUT / f"{unit.stem}.service"
    service.write_text(f"[Unit]\nSourcePath={unit}\n")
    if "WantedBy=default.target" in text:
        wants = OUTPUT / "default.target.wants"
        wants.mkdir(exist_ok=True)
        (wants / service.name).symlink_to(f"../{service.name}")
sys.exit(code)
