#!/bin/sh
# Serve the real corpus on many loopback hosts until stopped: bench/farm.sh [--hosts N] [--port P] [--ready FILE].
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
exec "$here/.venv/bin/python" -m crawl_pipeline.testing.site_farm --folder "$here/.corpus/farm" "$@"
