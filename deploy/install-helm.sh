#!/usr/bin/env bash
# Builds helm into .tools/bin, if it is not on the PATH: the tests render the chart with it. It needs Go 1.25 or later,
# and takes about three minutes of CPU time.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v helm >/dev/null && exit 0
[ -x .tools/bin/helm ] && exit 0

command -v go >/dev/null || { echo "The tests of the chart need helm on the PATH, or Go to build it." >&2; exit 1; }
mkdir -p .tools/bin
cd .tools  # outside the project, whose folder is no Go module
GOBIN="$PWD/bin" go install helm.sh/helm/v3/cmd/helm@v3.22.0
