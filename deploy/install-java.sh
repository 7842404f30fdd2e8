#!/usr/bin/env bash
# Installs Java 17 and Maven, if they are missing and it has the rights: the tests need them to run Apache Kafka.
set -euo pipefail

java_is_there() {
  local version
  version=$(java -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ -n "$version" ] && [ "$version" -ge 17 ]
}

missing=()
java_is_there || missing+=(openjdk-17-jre-headless)
command -v mvn >/dev/null || missing+=(maven)
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "The Kafka tests need Java 17 or later and Maven; missing here: ${missing[*]}." >&2
  echo "Install them, or as root on Debian or Ubuntu run deploy/install-java.sh." >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
if ! apt-cache show openjdk-17-jre-headless >/dev/null 2>&1; then  # newer systems have newer ones only
  missing=("${missing[@]/openjdk-17-jre-headless/default-jre-headless}")
fi
apt-get install -qq --yes --no-install-recommends "${missing[@]}" >/dev/null
java_is_there || { echo "Java is installed, but the first \`java\` on the PATH is older than 17." >&2; exit 1; }
