#!/usr/bin/env bash
# Puts prometheus and promtool into .tools/bin, if they are on no PATH: the tests check the rules of alerts with them.
# It unpacks Debian's package, and starts and installs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v promtool >/dev/null && command -v prometheus >/dev/null && exit 0
[ -x .tools/bin/promtool ] && [ -x .tools/bin/prometheus ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "The tests of alerts need prometheus and promtool on the PATH." >&2
  exit 1
fi
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
cd "$unpacked"
apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; }
dpkg -x prometheus_*.deb .
cd - >/dev/null
mkdir -p .tools/bin
cp "$unpacked"/usr/bin/prometheus "$unpacked"/usr/bin/promtool .tools/bin/
