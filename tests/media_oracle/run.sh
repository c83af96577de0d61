#!/bin/sh
# Compares our decoders with Pillow on generated pictures of every format:
#   run.sh COMPARE_PROGRAM WORK_FOLDER
# Needs a python3 with PIL (Debian: python3-pil); without one it says so and ends with 77, which ctest reports as skipped.
set -eu
compare=$1
work=$2
here=$(cd "$(dirname "$0")" && pwd)

for python in /usr/bin/python3 python3; do
  if "$python" -c 'import PIL.Image' 2>/dev/null; then
    exec "$python" "$here/compare.py" "$compare" "$work"
  fi
done
echo "SKIPPED: pictures were NOT compared with Pillow: no python3 here has PIL (Debian: python3-pil)" >&2
exit 77
