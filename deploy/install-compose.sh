#!/usr/bin/env bash
# Builds what reads compositions in Docker Compose into .tools/bin: a test reads ours with it. It needs Go, and takes a
# few seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -x .tools/bin/compose-spec ] && exit 0

command -v go >/dev/null || { echo "The test of the composition needs Go to build compose-go." >&2; exit 1; }
mkdir -p .tools/bin
cd .tools  # outside the project, whose folder is no Go module
built=$(mktemp -d)
trap 'rm -rf "$built"' EXIT
GOBIN="$built" go install github.com/compose-spec/compose-go/v2/cmd@v2.9.1
mv "$built/cmd" bin/compose-spec
