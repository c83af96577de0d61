#!/usr/bin/env bash
# Makes the Debian package of a build folder and puts it through tests/packaging/debian.sh.
#   tests/packaging/package_test.sh BUILD_DIR SOURCE_DIR
set -euo pipefail

build=$1 source=$2
if [ "${CLEF_TEST_PACKAGES-}" != 1 ]; then
  echo "SKIPPED: takes minutes, root and a Debian mirror; CLEF_TEST_PACKAGES=1 asks for it" >&2
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cmake -S "$source" -B "$build" -DCMAKE_INSTALL_PREFIX=/usr >/dev/null
(cd "$build" && cpack -G DEB -B "$out" >/dev/null)
"$source/tests/packaging/debian.sh" "$out"/*.deb "$build/test_data/clef-tiny" "$source/examples/requests.jsonl"
