#!/bin/sh
# Tries the page, where the programs for it are here:
#   run.sh types WORK_FOLDER                    the modules' types, with TypeScript
#   run.sh modules WORK_FOLDER                  the modules that need no page, in node
#   run.sh pages WORK_FOLDER SERVER MODEL TOOL  the page in Chromium, against the running clef-server; TOOL is clef-tool
#   run.sh images WORK_FOLDER SERVER MODEL [PICTURE_MODEL]  the pictures of docs/images, drawn anew
# Where node, Chromium or the npm registry is missing it says so and ends with 77, which ctest reports as skipped.
set -eu
what=$1
work=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
web=$(cd "$here/../../web" && pwd)

skip() {
  echo "SKIPPED: the page was NOT tried ($what): $1" >&2
  exit 77
}

install_packages() {
  command -v npm >/dev/null 2>&1 || skip "npm is not installed"
  mkdir -p "$work"
  cd "$work"
  if ! cmp -s "$here/package.json" installed.json; then
    cp "$here/package.json" "$here/.npmrc" .
    version=$(npm view --fetch-retries=1 --fetch-timeout=15000 axe-core@4.14.1 version 2>&1) ||
      skip "the npm registry cannot be reached: $(echo "$version" | head -n 4 | tr '\n' ' ')"
    npm install --no-audit --no-fund --silent
    cp package.json installed.json
  fi
}

command -v node >/dev/null 2>&1 || skip "node is not installed"
major=$(node --version | sed 's/^v\([0-9]*\).*/\1/')
[ "$major" -ge 18 ] || skip "node $(node --version) is too old: 18 is needed"

case "$what" in
  types)
    install_packages
    exec node_modules/.bin/tsc --project "$here/tsconfig.json"
    ;;
  modules)
    # Beside a package.json that says so, node takes .js files for modules.
    mkdir -p "$work/modules"
    cp "$web"/index.html "$web"/assets/*.js "$here/modules.mjs" "$work/modules"
    echo '{"type": "module"}' >"$work/modules/package.json"
    exec node "$work/modules/modules.mjs"
    ;;
  pages | images)
    chromium=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || skip "there is no Chromium"
    install_packages
    cp "$here"/*.mjs .
    export CLEF_CHROMIUM="$chromium" CLEF_REPOSITORY="$here/../.."
    exec node --test-reporter=spec "$what.mjs" "$@"
    ;;
  *)
    echo "run.sh: unknown: $what" >&2
    exit 2
    ;;
esac
