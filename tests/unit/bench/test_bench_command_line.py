"""The harnesses against simulated replicas behind the real proxy, as an operator runs them."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.harness import plots
from bench.harness.__main__ import main
from bench.harness.metrics import KV_USE, parse
from bench.routing.fleet import SimulatedFleet


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedFleet]:
    """Two replicas at 1/200 of their time and the proxy."""
    with asyncio.Runner() as runner:
        fleet = SimulatedFleet("adaptive", 2, 0.005, tmp_path_factory.mktemp("fleet"))
        runner.run(fleet.__aenter__())
        try:
            yield fleet
        finally:
            runner.run(fleet.__aexit__(None, None, None))


def result(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text())
    return loaded


def test_turns_are_sized_in_tokens_pinned_and_cached(
    fleet: SimulatedFleet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "turns.json"
    flags = ["--families", "3", "--in-order", "--context", "6000", "--turns", "3", "--question", "100", "--answer", "8"]
    assert main(["turns", "--endpoint", f"{fleet.url}/v1/", *flags, "--json", str(out)]) == 0
    turns = result(out)["turns"]
    assert len(turns) == 9
    assert all(6000 < turn["prompt_tokens"] < 6600 for turn in turns)
    homes = {turn["family"]: turn["replica"] for turn in turns if turn["number"] == 1}
    assert {turn["replica"] == homes[turn["family"]] for turn in turns} == {True}
    assert all(turn["cached_tokens"] == (0 if turn["number"] == 1 else 4944) for turn in turns)  # 3 blocks of 1648
    assert "| family-1 | 3 " in capsys.readouterr().out


def test_another_salt_finds_nothing_in_the_cache_and_the_same_one_does(fleet: SimulatedFleet, tmp_path: Path) -> None:
    cached = []
    for run, salt in enumerate(("x", "y", "x")):
        out = tmp_path / f"{run}.json"
        argv = ["turns", "--endpoint", fleet.urls[0], "--families", "1", "--turns", "1", "--context", "6000"]
        assert main([*argv, "--salt", salt, "--json", str(out)]) == 0
        cached.append(result(out)["turns"][0]["cached_tokens"])
    assert cached == [0, 0, 4944]


def test_a_soak_watches_the_engines(fleet: SimulatedFleet, tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    flags = ["--families", "big=20000,small=5000", "--minutes", "0.03", "--interval", "0.05", "--answer", "32"]
    assert main(["soak", "--endpoint", fleet.url, *flags, "--engines", *fleet.urls, "--json", str(out)]) == 0
    loaded = result(out)
    assert {turn["family"] for turn in loaded["turns"]} == {"big", "small"}
    assert {sample["engine"] for sample in loaded["samples"]} == set(fleet.urls)
    assert max(sample["kv_use"] for sample in loaded["samples"]) > 0.1
    assert max(turn["started"] for turn in loaded["turns"]) < 1.8


def test_a_wrong_model_or_endpoint_is_one_line(fleet: SimulatedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["turns", "--endpoint", fleet.url, "--model", "gpt-5"]) == 2
    assert main(["turns", "--endpoint", "http://127.0.0.1:1"]) == 2
    model, endpoint = capsys.readouterr().err.splitlines()
    assert model.endswith("does not serve 'gpt-5' but frank-medium")
    assert endpoint.startswith("bench: no OpenAI endpoint at http://127.0.0.1:1/v1")


def test_metrics_are_summed_over_labels() -> None:
    page = f'# TYPE x gauge\n{KV_USE}{{engine="0"}} 0.25\n{KV_USE}{{engine="1"}} 0.5\npython_info 1\n'
    assert parse(page) == {KV_USE: 0.75}


def test_what_is_no_result_is_not_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text("{}")
    assert main(["plot", str(tmp_path / "x.json")]) == 2
    assert "not a result" in capsys.readouterr().err


def test_without_matplotlib_a_plot_names_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(name: str) -> Any:
        raise ImportError(name) if name.startswith("matplotlib") else AssertionError(name)

    monkeypatch.setattr(plots, "import_module", refuse)
    with pytest.raises(plots.PlotError, match=r"pip install -r requirements-bench\.txt"):
        plots.plot({"harness": "turns", "turns": []}, tmp_path / "x.png")
