#!/usr/bin/env bash
# Fetches the released models, every byte checked: a front to `clef-tool fetch`, which it builds if need be.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: ./download_models.sh TARGET [--skip-download] [--token TOKEN] [options of clef-tool fetch]

TARGET is clef-flash (19 GB), clef (55 GB), clef-omni (about 70 GB), or all. Each goes into a folder of its name here, at
its pinned revision; what is there is gone on with. --skip-download checks what is there, without the network. A token is
better given as HF_TOKEN, which does not show in the list of processes.
docs/install.md has the rest.
TEXT
}

root=$(cd "$(dirname "$0")" && pwd)
target="" options=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --token)
      [ $# -ge 2 ] || { echo "download_models.sh: --token needs a token" >&2; exit 2; }
      export HF_TOKEN=$2
      shift ;;
    --token=*) export HF_TOKEN=${1#--token=} ;;
    clef-flash | clef | clef-omni | all)
      [ -z "$target" ] || { echo "download_models.sh: expected one model, got $target and $1" >&2; usage >&2; exit 2; }
      target=$1 ;;
    --skip-download | --repair | --verify | --*=*) options+=("$1") ;;
    --dir | --convert | --revision | --connections | --tries | --retry-delay | --stall-timeout)
      [ $# -ge 2 ] || { echo "download_models.sh: $1 needs a value" >&2; exit 2; }
      options+=("$1" "$2")
      shift ;;
    *) echo "download_models.sh: unknown argument '$1'" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
[ -n "$target" ] || { usage >&2; exit 2; }

tool=""
for candidate in "${CLEF_TOOL-}" "$root"/build/release/bin/clef-tool "$root"/build/cuda/bin/clef-tool "$(command -v clef-tool || true)"; do
  if [ -n "$candidate" ] && [ -x "$candidate" ]; then tool=$candidate; break; fi
done
if [ -z "$tool" ]; then
  echo "download_models.sh: building clef-tool first" >&2
  make -C "$root" tool >&2
  tool=$root/build/release/bin/clef-tool
fi

if [ "$target" = all ]; then targets=(clef-flash clef clef-omni); else targets=("$target"); fi
for model in "${targets[@]}"; do "$tool" fetch "$model" ${options[@]+"${options[@]}"}; done
