#!/bin/bash
# Health probe of every container of the fleet: replica, proxy and TP=2 engine alike. Asks 127.0.0.1:$PORT/health and
# exits 0 only on a 200. Plain bash, because neither curl nor a Python on PATH can be counted on in the image.
set -euo pipefail

exec 3<>"/dev/tcp/127.0.0.1/${PORT:?}"
printf 'GET /health HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
read -r -t "${HEALTH_TIMEOUT:-8}" _ status _ <&3
[ "$status" = 200 ]
