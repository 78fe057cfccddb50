"""Two jobs at a time; the first failure ends what runs and is what the caller learns."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_runner.__main__ import main, summary
from test_runner.jobs import PROJECT, Job
from test_runner.lanes import Lanes


def job(part: str, command: str) -> Job:
    return Job("unit", part, command, lambda log: len(re.findall("ran", log)))


def runs(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for its parent to take note."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def ends(pid: int) -> None:
    """Wait until a process has ended."""
    deadline = time.monotonic() + 30
    while runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_all_well(tmp_path):
    lanes = Lanes(
        [job("a", "echo ran ran; echo 'x figure: 3 sent'"), job("b", "printf '\\033[32mran\\033[0m\\n'")], tmp_path
    )
    assert lanes.run() and lanes.failed is None
    assert {done.job.part: done.tests for done in lanes.done} == {"a": 2, "b": 1}
    told = summary(lanes.done)
    assert "3 tests in  2 jobs" in told and told.endswith("3 sent")


def test_two_run_at_once_each_in_its_own_lane(tmp_path):
    here = f"echo ran $FRANK_FLEET_LANE; touch {tmp_path}/$FRANK_FLEET_LANE.here"
    meet = f"until [ -e {tmp_path}/first.here ] && [ -e {tmp_path}/second.here ]; do sleep 0.01; done"
    lanes = Lanes([job(part, f"{here}; {meet}") for part in "ab"], tmp_path)
    assert lanes.run()
    assert {lanes.log_of(done.job).strip() for done in lanes.done} == {"ran first", "ran second"}


def test_a_failure_ends_what_runs_with_its_children(tmp_path, capfd):
    child = f"sleep 60 & echo $! > {tmp_path}/child; wait"
    wait_for_it = f"until [ -s {tmp_path}/child ]; do sleep 0.01; done; echo 'the reason'; exit 3"
    lanes = Lanes([job("a", child), job("b", wait_for_it), job("c", f"touch {tmp_path}/c; echo ran")], tmp_path)
    assert not lanes.run()
    assert lanes.failed.part == "b" and lanes.log_of(lanes.failed) == "the reason\n"
    assert not (tmp_path / "c").exists()
    ends(int((tmp_path / "child").read_text()))
    assert "failed  unit-b, exit code 3" in capfd.readouterr().err


ONE_JOB = """
import sys
from pathlib import Path
from test_runner import __main__ as runner
from test_runner.jobs import PROJECT, Job

folder = Path(sys.argv[1])
job = Job("unit", "a", f"sleep 60 & echo $! > {folder}/child; wait", lambda log: 1)
runner.plan, runner.LOGS = lambda tiers: [job], folder
sys.exit(runner.main(["unit"]))
"""


def test_a_runner_that_is_ended_ends_its_jobs(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(PROJECT / "tools")}
    with subprocess.Popen([sys.executable, "-c", ONE_JOB, str(tmp_path)], env=environment) as runner:
        child = tmp_path / "child"
        while not child.exists() or not child.read_text():
            assert runner.poll() is None
            time.sleep(0.01)
        runner.terminate()
    assert runner.returncode == 1
    ends(int(child.read_text()))


@pytest.mark.parametrize("command", ["false; echo ran", "false | echo ran", "echo ${unset_variable}ran"])
def test_a_step_that_fails_in_the_middle_fails_the_job(tmp_path, command):
    assert not Lanes([job("a", command)], tmp_path).run()


def test_a_job_without_tests_has_failed(tmp_path, capfd):
    lanes = Lanes([job("a", "echo nothing")], tmp_path)
    assert not lanes.run() and lanes.failed.part == "a"
    assert "not all of it ran" in capfd.readouterr().err


@pytest.mark.parametrize("tiers", [[], ["nothing"], ["lint", "Unit"]])
def test_other_tiers_are_refused(tiers, capsys):
    assert main(tiers) == 2
    assert "lint unit units rules molecule" in capsys.readouterr().err
