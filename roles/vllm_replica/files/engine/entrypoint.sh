#!/bin/bash -l
# First process of every engine container: patches the image, then hands over to the image's own entrypoint.
#
# A login shell (-l), because that is where the image puts its Python (/opt/vllm) on PATH.
# Configured by the environment of the unit: the knobs, and the PATCH_* lists that belong to one pinned revision of
# /patches. Arguments are extra engine flags, passed through last so that they win.
set -euo pipefail

patches=${PATCHES_DIR:-/patches}
r4d=${R4D_DIR:-/r4d}
image_entrypoint=${IMAGE_ENTRYPOINT:-/opt/radiance_entrypoint.sh}

say() { printf 'entrypoint: %s\n' "$*"; }
die() { printf 'entrypoint: ERROR: %s\n' "$*" >&2; exit 1; }

is_empty() { [ ! -d "$1" ] || [ -z "$(ls -A "$1")" ]; }

# Commit that a clone has checked out, read without git: the image need not carry it.
checked_out_revision() {
  local head
  head=$(cat "$1/.git/HEAD" 2>/dev/null) || return 0
  case $head in
    'ref: '*)
      local ref=${head#ref: }
      if [ -f "$1/.git/$ref" ]; then cat "$1/.git/$ref"
      else sed -n "s|^\([0-9a-f]\{40\}\) $ref\$|\1|p" "$1/.git/packed-refs" 2>/dev/null || true
      fi ;;
    *) printf '%s\n' "$head" ;;
  esac
}

check_revision() {
  [ -n "${PATCH_REVISION:-}" ] || { say "PATCH_REVISION is not set: the revision of $patches is not checked"; return; }
  local found
  found=$(checked_out_revision "$patches")
  [ "$found" = "$PATCH_REVISION" ] ||
    die "$patches is at revision '${found:-unknown}', the inventory pins '$PATCH_REVISION'; check out that revision or change the pin together with its list of patches"
}

run_patches() {
  local script
  for script in ${PATCH_SCRIPTS:-}; do
    [ -f "$script" ] || die "patch $script is not in $patches: the list in the inventory belongs to another revision"
    say "applying $script"
    python3 "$script" || die "patch $script failed"
  done
  for script in ${PATCH_SCRIPTS_OPTIONAL:-}; do
    [ -f "$script" ] || { say "optional patch $script is not in $patches: skipped"; continue; }
    say "applying $script (may fail without harm)"
    python3 "$script" || say "WARNING: optional patch $script did not apply"
  done
}

copy_all() { # DESTINATION FILE...
  local destination=$1 file
  shift
  [ -d "$destination" ] || die "$destination does not exist in the image: is this the image that the patches were written for?"
  for file in "$@"; do
    [ -f "$file" ] || die "$file is not in $patches: the list in the inventory belongs to another revision"
    cp "$file" "$destination/"
    say "copied $file"
  done
}

compile_hip() { # the GEMM kernels are built for this card at every start: about a minute
  local source
  for source in ${PATCH_HIP_SOURCES:-}; do
    [ -f "$source" ] || die "$source is not in $patches: the list in the inventory belongs to another revision"
    say "compiling $source for ${GPU_ARCH:-gfx1201}"
    # shellcheck disable=SC2046  # two words: the include flags
    hipcc -O3 -w -std=c++17 -fPIC -shared "--offload-arch=${GPU_ARCH:-gfx1201}" $(python3 -m pybind11 --includes) \
      "$source" -o "$site_packages/$(basename "$source" .hip).so" || die "compiling $source failed"
  done
}

patch_image() {
  if is_empty "$patches"; then say "$patches is empty: no patches applied"; return; fi
  cd "$patches"
  check_revision
  run_patches
  # shellcheck disable=SC2086  # lists of names and globs, split on purpose
  copy_all "$site_packages" ${PATCH_MODULES:-}
  # shellcheck disable=SC2086
  [ -z "${PATCH_GEMM_TABLES:-}" ] || copy_all "$site_packages/aiter/ops/triton/configs/gemm" $PATCH_GEMM_TABLES
  compile_hip
}

# The r4d.so in the image predates the gated-delta-net overflow fix: with it this model answers fluent nonsense.
replace_r4d() {
  if [ -f "$r4d/r4d.so" ]; then cp "$r4d/r4d.so" "$site_packages/r4d.so"; say "copied $r4d/r4d.so over the image's"
  elif is_empty "$r4d"; then say "$r4d is empty: the image keeps its own r4d.so"
  else die "$r4d has no r4d.so: build libr4d there, or empty the folder to run with the image's own"
  fi
}

speculative_config() {
  case ${SPEC_METHOD:-} in
    dflash) printf '{"method": "dflash", "model": "%s", "num_speculative_tokens": %s, "attention_backend": "TRITON_ATTN", "disable_padded_drafter_batch": true, "draft_sample_method": "greedy"}' "$DRAFTER" "$SPEC" ;;
    mtp) printf '{"method": "mtp", "num_speculative_tokens": %s, "attention_backend": "R4D"}' "$SPEC" ;;
    *) die "SPEC_METHOD is '${SPEC_METHOD:-}': use dflash, mtp or none" ;;
  esac
}

# Engine flags from the knobs, one array element a word. Every knob is passed literally: KV_MEM=0 too, which the
# patched sizing reads as "profile this shape"; with the flag left out the KV allocation runs out of memory.
build_flags() {
  flags=(
    "$SNAP" --host 0.0.0.0 --port "$PORT" --served-model-name "$SERVED_MODEL_NAME"
    --tensor-parallel-size "$TP" --max-model-len "$MAXLEN" --max-num-seqs "$MAXSEQS" --max-num-batched-tokens "$CHUNK"
    --gpu-memory-utilization "$GPU_UTIL" --kv-cache-memory "$KV_MEM"
    --kv-cache-dtype fp8 --attention-backend R4D --no-async-scheduling
    # Prefix caching must be asked for: on this hybrid model the engine leaves it off silently otherwise.
    --enable-prefix-caching --mamba-cache-mode align
    --enable-auto-tool-choice --tool-call-parser qwen3_coder --reasoning-parser qwen3
    --override-generation-config '{"temperature": 0.7, "top_p": 0.95, "top_k": 20}'
  )
  if [ "${SPEC_METHOD:-}" != none ]; then
    local speculative
    speculative=$(speculative_config)
    flags+=(--speculative-config "$speculative")
  fi
  if [ -f "${CHAT_TEMPLATE:-}" ]; then flags+=(--chat-template "$CHAT_TEMPLATE")
  else say "chat template '${CHAT_TEMPLATE:-}' is not there: the checkpoint's own is used"
  fi
}

for knob in SNAP PORT SERVED_MODEL_NAME TP MAXLEN MAXSEQS CHUNK GPU_UTIL KV_MEM; do
  [ -n "${!knob:-}" ] || die "$knob is not set: every knob must have a value, 0 included"
done
[ -x "$image_entrypoint" ] || die "$image_entrypoint is not in this image: is it really vllm-radiance?"
site_packages=${SITE_PACKAGES:-$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')}

patch_image
replace_r4d
build_flags
# /patches on sys.path would shadow the kernels just built with any stale build lying there.
cd /
say "starting $image_entrypoint ${flags[*]} $*"
exec "$image_entrypoint" "${flags[@]}" "$@"
