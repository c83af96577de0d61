#!/bin/sh
# Real clients against the running server: the npm packages of package.json, and curl.
#   run.sh SERVER_PROGRAM MODEL WORK_FOLDER
# Needs node, npm and the npm registry; where one is missing it says so and ends with 77, which ctest reports as skipped.
# openai asks for a newer node than Debian has: then the one that npm brings runs the tests.
set -eu
server=$(realpath "$1")
model=$(realpath "$2")
work=$3
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "SKIPPED: the server was NOT tried with real clients: $1" >&2
  exit 77
}

for program in node npm curl; do
  command -v "$program" >/dev/null 2>&1 || skip "$program is not installed"
done
major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
[ "$major" -ge 20 ] || skip "node $(node --version) is too old for the packages: 20 is needed"
mkdir -p "$work"
cd "$work"
if ! cmp -s "$here/package.json" installed.json; then
  cp "$here/package.json" "$here/.npmrc" .
  version=$(npm view --fetch-retries=1 --fetch-timeout=15000 @typesafe-ai/sdk@0.6.0 version 2>&1) ||
    skip "the npm registry cannot be reached: $(echo "$version" | head -n 4 | tr '\n' ' ')"
  npm install --no-audit --no-fund --silent
  cp package.json installed.json
fi
cp "$here"/*.mjs .
node=node
if [ "$major" -lt 22 ] && ./node_modules/.bin/node --version >/dev/null 2>&1; then node=./node_modules/.bin/node; fi
exec "$node" --test-reporter=spec clients.mjs "$server" "$model"
