#!/usr/bin/env bash
# From what the last span left (resume.* or snapshot/, report.json, reference.jsonl or results.tgz with it) to models/ and tests/golden/demo.jsonl.
#
#     tools/demo_model/package.sh RESULTS PROGRAMS        PROGRAMS: the folder of clef and clef-tool
set -euo pipefail
results=$(realpath "$1") programs=$(realpath "$2")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ ! -f "$results/results.tgz" ] || tar xzf "$results/results.tgz" -C "$work"
for name in report.json reference.jsonl; do
  [ ! -f "$results/$name" ] || cp "$results/$name" "$work/"
  [ -f "$work/$name" ] || { echo "package.sh: $results: expected $name, alone or in results.tgz" >&2; exit 1; }
done
mkdir "$work/cleffa-demo"
if [ -d "$results/snapshot" ]; then
  cp "$results"/snapshot/* "$work/cleffa-demo/"
else
  cat "$results"/resume.[0-9] | tar xf - -C "$work/cleffa-demo"
fi
rm -f "$work/cleffa-demo/progress.json" "$work/cleffa-demo.gguf"
"$programs/clef-tool" convert "$work/cleffa-demo" "$work/cleffa-demo.gguf"
"$programs/clef-tool" verify "$work/cleffa-demo" "$work/cleffa-demo.gguf"
cp "$work/cleffa-demo.gguf" "$work/report.json" models/
python3 tools/demo_model/goldens.py "$work/reference.jsonl" tests/golden/demo.jsonl
python3 tests/demo/heldout_test.py "$programs/clef" models/cleffa-demo.gguf models/report.json
