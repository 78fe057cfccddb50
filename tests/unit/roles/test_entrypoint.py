"""The engine's entrypoint, run by bash against a stand-in for the image: what it patches, refuses and hands over."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[3] / "roles/vllm_replica/files/engine/entrypoint.sh"
KNOBS = {
    "SNAP": "/models/checkpoint", "PORT": "7771", "SERVED_MODEL_NAME": "frank-medium", "TP": "1", "MAXLEN": "114688",
    "MAXSEQS": "4", "CHUNK": "8192", "GPU_UTIL": "0.98", "KV_MEM": "0", "SPEC_METHOD": "dflash", "SPEC": "7",
    "DRAFTER": "/models/drafter",
}  # fmt: skip
HAND_OVER = """#!/usr/bin/env python3
import json, os, sys
print("HANDED OVER " + json.dumps({"cwd": os.getcwd(), "argv": sys.argv[1:]}))
"""


class Image:
    """A stand-in for the container: its folders, and the entrypoint run in it."""

    def __init__(self, root: Path) -> None:
        self.patches, self.r4d, self.site_packages = root / "patches", root / "r4d", root / "site-packages"
        for folder in (self.patches, self.r4d, self.site_packages):
            folder.mkdir()
        self.image_entrypoint = root / "radiance_entrypoint.sh"
        self.image_entrypoint.write_text(HAND_OVER)
        self.image_entrypoint.chmod(0o755)

    def run(self, *arguments: str, **environment: str | None) -> subprocess.CompletedProcess[str]:
        settings = KNOBS | {
            "PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PATCHES_DIR": str(self.patches),
            "R4D_DIR": str(self.r4d), "SITE_PACKAGES": str(self.site_packages),
            "IMAGE_ENTRYPOINT": str(self.image_entrypoint),
        } | environment  # fmt: skip
        settings = {name: value for name, value in settings.items() if value is not None}
        # Not through the shebang: a login shell of the machine that runs the tests is not the image's.
        return subprocess.run(
            ["bash", str(ENTRYPOINT), *arguments], env=settings, capture_output=True, text=True, check=False, timeout=20
        )

    def patch(self, name: str, text: str) -> None:
        (self.patches / name).write_text(text)


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path)


def handed_over(result: subprocess.CompletedProcess[str]) -> dict:
    assert result.returncode == 0, result.stderr
    [line] = [line for line in result.stdout.splitlines() if line.startswith("HANDED OVER ")]
    return json.loads(line.removeprefix("HANDED OVER "))


def value_of(argv: list[str], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_every_knob_is_passed_literally(image):
    argv = handed_over(image.run())["argv"]
    assert argv[0] == "/models/checkpoint"
    assert {flag: value_of(argv, flag) for flag in argv if flag in {
        "--port", "--served-model-name", "--tensor-parallel-size", "--max-model-len", "--max-num-seqs",
        "--max-num-batched-tokens", "--gpu-memory-utilization", "--kv-cache-memory"}} == {
        "--port": "7771", "--served-model-name": "frank-medium", "--tensor-parallel-size": "1",
        "--max-model-len": "114688", "--max-num-seqs": "4", "--max-num-batched-tokens": "8192",
        "--gpu-memory-utilization": "0.98", "--kv-cache-memory": "0",
    }  # fmt: skip
    assert "--enable-prefix-caching" in argv


@pytest.mark.parametrize("knob", [name for name in KNOBS if name not in {"SPEC_METHOD", "SPEC", "DRAFTER"}])
@pytest.mark.parametrize("value", [None, ""])
def test_a_blank_knob_is_refused_by_name(image, knob, value):
    result = image.run(**{knob: value})
    assert result.returncode == 1
    assert f"ERROR: {knob} is not set" in result.stderr
    assert "HANDED OVER" not in result.stdout


def test_speculation(image):
    dflash = json.loads(value_of(handed_over(image.run())["argv"], "--speculative-config"))
    assert dflash["method"] == "dflash" and dflash["model"] == "/models/drafter"
    assert dflash["num_speculative_tokens"] == 7
    mtp = json.loads(value_of(handed_over(image.run(SPEC_METHOD="mtp", SPEC="4"))["argv"], "--speculative-config"))
    assert mtp["method"] == "mtp" and mtp["num_speculative_tokens"] == 4
    assert "--speculative-config" not in handed_over(image.run(SPEC_METHOD="none"))["argv"]


def test_an_unknown_drafter_is_refused(image):
    result = image.run(SPEC_METHOD="eagle")
    assert result.returncode == 1 and "SPEC_METHOD is 'eagle'" in result.stderr


def test_extra_flags_come_last_and_whole(image):
    extra = ["--chat-template-kwargs", '{"a": "b c"}', "--api-key", "a$b%c"]
    assert handed_over(image.run(*extra))["argv"][-4:] == extra


def test_the_chat_template_is_used_where_it_exists(image, tmp_path):
    template = tmp_path / "template.jinja"
    missing = image.run(CHAT_TEMPLATE=str(template))
    assert "--chat-template" not in handed_over(missing)["argv"]
    assert "is not there" in missing.stdout
    template.write_text("{{ messages }}")
    assert value_of(handed_over(image.run(CHAT_TEMPLATE=str(template)))["argv"], "--chat-template") == str(template)


def test_empty_folders_are_skipped_and_said_so(image):
    result = image.run(PATCH_SCRIPTS="patch_a.py")
    handed_over(result)
    assert f"{image.patches} is empty: no patches applied" in result.stdout
    assert f"{image.r4d} is empty: the image keeps its own r4d.so" in result.stdout


def test_patches_run_in_order_in_their_folder_and_are_left_before_the_hand_over(image):
    for name in ("patch_b.py", "patch_a.py"):
        log_itself = f"open(os.environ['SITE_PACKAGES'] + '/log', 'a').write('{name} ' + os.getcwd() + '\\n')"
        image.patch(name, f"import os; {log_itself}")
    result = handed_over(image.run(PATCH_SCRIPTS="patch_b.py patch_a.py"))
    log = (image.site_packages / "log").read_text().split()
    assert log == ["patch_b.py", str(image.patches), "patch_a.py", str(image.patches)]
    assert result["cwd"] == "/"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("patch_missing.py", "patch patch_missing.py is not in"), ("patch_failing.py", "patch patch_failing.py failed")],
)
def test_a_missing_or_failing_patch_stops_the_start_with_its_name(image, name, reason):
    image.patch("patch_failing.py", "raise SystemExit(3)")
    result = image.run(PATCH_SCRIPTS=name)
    assert result.returncode == 1 and reason in result.stderr
    assert "HANDED OVER" not in result.stdout


def test_an_optional_patch_may_be_missing_or_fail(image):
    image.patch("patch_failing.py", "raise SystemExit(3)")
    result = image.run(PATCH_SCRIPTS_OPTIONAL="patch_failing.py patch_missing.py")
    handed_over(result)
    assert "WARNING: optional patch patch_failing.py did not apply" in result.stdout
    assert "optional patch patch_missing.py is not in" in result.stdout


def test_modules_and_tables_are_copied(image):
    tables = image.site_packages / "aiter/ops/triton/configs/gemm"
    tables.mkdir(parents=True)
    (image.patches / "configs").mkdir()
    image.patch("configs/one.json", "1")
    image.patch("configs/two.json", "2")
    image.patch("radiance_x.py", "x = 1")
    handed_over(image.run(PATCH_MODULES="radiance_x.py", PATCH_GEMM_TABLES="configs/*.json"))
    assert (image.site_packages / "radiance_x.py").read_text() == "x = 1"
    assert sorted(path.name for path in tables.iterdir()) == ["one.json", "two.json"]


@pytest.mark.parametrize("setting", ["PATCH_MODULES", "PATCH_HIP_SOURCES"])
def test_a_missing_module_or_source_is_named(image, setting):
    image.patch("something_else.py", "")
    result = image.run(**{setting: "radiance_y"})
    assert result.returncode == 1 and "radiance_y is not in" in result.stderr


def test_hip_sources_are_compiled_for_the_card(image, tmp_path):
    compiler = tmp_path / "bin/hipcc"
    compiler.parent.mkdir()
    compiler.write_text('#!/bin/bash\nprintf "%s\\n" "$@" > "${@: -1}"\n')
    compiler.chmod(0o755)
    (compiler.parent / "python3").write_text("#!/bin/bash\necho -I/include\n")
    (compiler.parent / "python3").chmod(0o755)
    image.image_entrypoint.write_text("#!/bin/bash\n")
    image.patch("kernel.hip", "")
    result = image.run(PATCH_HIP_SOURCES="kernel.hip", PATH=f"{compiler.parent}:{os.environ['PATH']}")
    assert result.returncode == 0, result.stderr
    arguments = (image.site_packages / "kernel.so").read_text().split()
    assert "--offload-arch=gfx1201" in arguments and "-I/include" in arguments and "kernel.hip" in arguments


def test_the_patched_r4d_replaces_the_one_of_the_image(image):
    (image.site_packages / "r4d.so").write_text("image")
    (image.r4d / "r4d.so").write_text("patched")
    handed_over(image.run())
    assert (image.site_packages / "r4d.so").read_text() == "patched"


def test_an_r4d_folder_without_the_library_is_refused(image):
    (image.r4d / "Makefile").write_text("")
    result = image.run()
    assert result.returncode == 1 and "has no r4d.so" in result.stderr


PINNED = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("form", ["detached", "branch", "packed"])
def test_the_pinned_revision_is_checked(image, form):
    git = image.patches / ".git"
    (git / "refs/heads").mkdir(parents=True)
    (git / "HEAD").write_text(f"{PINNED}\n" if form == "detached" else "ref: refs/heads/main\n")
    if form == "branch":
        (git / "refs/heads/main").write_text(f"{PINNED}\n")
    if form == "packed":
        (git / "packed-refs").write_text(f"# pack-refs with: peeled\n{PINNED} refs/heads/main\n")
    handed_over(image.run(PATCH_REVISION=PINNED))
    other = image.run(PATCH_REVISION=PINNED[::-1])
    assert other.returncode == 1 and PINNED in other.stderr


def test_a_pin_on_a_folder_that_is_no_clone_is_refused(image):
    image.patch("patch_a.py", "")
    result = image.run(PATCH_REVISION=PINNED)
    assert result.returncode == 1 and "revision 'unknown'" in result.stderr


def test_an_image_without_the_entrypoint_is_refused(image):
    image.image_entrypoint.unlink()
    result = image.run()
    assert result.returncode == 1 and "is it really vllm-radiance?" in result.stderr
