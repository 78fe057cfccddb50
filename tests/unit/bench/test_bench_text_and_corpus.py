"""Texts of the benches, and the corpus of code."""

import json
from pathlib import Path

import pytest
from bench.harness.corpus import CorpusError, build, salted, sources, write
from bench.harness.text import code_text


def test_a_text_has_its_length_and_repeats_for_its_seed_alone() -> None:
    assert [len(code_text("a", length)) for length in (0, 10, 5000)] == [0, 10, 5000]
    assert code_text("a", 500) == code_text("a", 500)
    assert code_text("a", 500)[:20] != code_text("b", 500)[:20]  # other texts differ before a cache block ends


def test_sources_leave_out_what_nobody_wrote(tmp_path: Path) -> None:
    for name in ("a.py", "deep/b.rs", "c.bin", ".git/d.py", "node_modules/e.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    assert [path.relative_to(tmp_path).as_posix() for path in sources(tmp_path)] == ["a.py", "deep/b.rs"]


def test_prompts_are_cut_from_the_sources_and_no_two_overlap(tmp_path: Path) -> None:
    (tmp_path / "numbers.py").write_text("\n".join(map(str, range(10_000))))
    prompts = [prompt.partition("\n\n")[2] for prompt in build(tmp_path, 8, 1000, seed=3)]
    assert all(len(prompt) == 1000 for prompt in prompts)
    lines = [set(prompt.split("\n")[1:-1]) for prompt in prompts]
    assert len(set.union(*lines)) == sum(map(len, lines))


def test_a_folder_too_small_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with pytest.raises(CorpusError, match="name a larger --source"):
        build(tmp_path, 8, 1000, seed=0)


def test_a_salt_changes_the_beginning_of_every_prompt(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    write(corpus, ["one", "two"])
    assert [json.loads(line) for line in corpus.read_text().splitlines()] == [{"prompt": "one"}, {"prompt": "two"}]
    first, second = salted(corpus, "monday"), salted(corpus, "tuesday")
    starts = {prompt.partition("\n")[0] for prompt in [*first, *second]}
    assert len(starts) == 4
    assert [prompt.partition("\n")[2] for prompt in first] == ["one", "two"]


@pytest.mark.parametrize("content", ["", "not json\n", '{"text": "x"}\n'])
def test_what_is_no_corpus_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "corpus.jsonl").write_text(content)
    with pytest.raises(CorpusError, match=r"corpus\.jsonl"):
        salted(tmp_path / "corpus.jsonl", "x")
