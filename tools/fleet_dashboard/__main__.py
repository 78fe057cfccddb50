"""`python -m fleet_dashboard` writes the role's dashboard file; a test checks that the file is what this makes."""

from pathlib import Path

from .build import text

FILE = Path(__file__).parents[2] / "roles/grafana_dashboard/files/llm-fleet.json"

if __name__ == "__main__":
    FILE.write_text(text())
