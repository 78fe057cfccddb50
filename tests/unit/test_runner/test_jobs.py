"""Nothing that there is to run is forgotten, and a log of nothing counts as nothing."""

from test_runner import jobs
from test_runner.jobs import LONG, PROJECT, TIERS, jobs_of, plan
from test_runner.lanes import LANES


def test_every_scenario_and_folder_has_its_job():
    parts = {tier: {job.part for job in jobs_of(tier)} for tier in TIERS}
    assert parts["molecule"] == {path.parent.name for path in PROJECT.glob("molecule/*/molecule.yml")}
    assert parts["unit"] == {
        path.relative_to(PROJECT / "tests/unit").parts[0] for path in PROJECT.glob("tests/unit/**/test_*.py")
    }
    assert {path.name for path in (PROJECT / "tests").iterdir()} - {"fixtures", "__pycache__"} == {
        "unit",
        "units",
        "rules",
    }


def test_the_longest_are_jobs_and_come_first():
    names = [job.name for job in plan(list(TIERS))]
    assert set(LONG) <= set(names)
    assert names[0] == "molecule-rolling" and names[1].startswith("lint")
    assert len(names) == len(set(names))


def test_a_tier_alone_has_its_jobs_alone():
    assert {job.tier for job in plan(["unit"])} == {"unit"}


def test_a_scenario_counts_when_each_of_its_verify_steps_ran():
    rolling = next(job for job in jobs_of("molecule") if job.part == "rolling")
    steps = ["  │ ======= 4 passed in 1.0s =======", "=== 5 passed, 1 warning in 2 s ===", "=== 9 passed in 3 s ==="]
    assert rolling.tests("\n".join(steps)) == 18
    assert rolling.tests("\n".join(steps[:2])) == 0
    assert rolling.tests("\n".join([*steps, "side_effect: Missing playbook"])) == 0


def test_each_lane_has_its_inventory_and_each_host_its_name():
    assert sorted(path.name for path in (PROJECT / "molecule/shared/lanes").iterdir()) == sorted(LANES)
    names = jobs.host_names()
    assert {"molecule", "molecule-2"} <= set(names) and len(set(names)) == len(names)


def test_pytest_says_how_many_ran():
    unit = jobs_of("unit")[0]
    assert unit.tests("=== 12 passed, 1 skipped in 1 s ===") == 12
    assert unit.tests("=== no tests ran in 0.01s ===") == 0
