#!/bin/bash
# Stands in for the image's own entrypoint: says what it is, refuses what the real engine can't start with, hands over.
set -euo pipefail
export PATH=/opt/vllm/bin:$PATH

echo "[radiance] vllm-radiance 0.9.3, simulated: no GPU is used"

if [[ -n ${HIP_VISIBLE_DEVICES:-} && -n ${ROCR_VISIBLE_DEVICES:-} ]]; then
    # ROCR filters first and HIP counts within what is left: with both, the engine finds no device.
    echo "[radiance] hipErrorNoDevice: HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES are both set" >&2
    exit 1
fi
if [[ $PWD == /patches* ]]; then
    echo "[radiance] started in $PWD: a stale build there would shadow the fresh one" >&2
    exit 1
fi
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/r4d.so
echo "[radiance] r4d.so $(sha256sum <"$library" | cut -c1-12)"

exec vllm serve "$@"
