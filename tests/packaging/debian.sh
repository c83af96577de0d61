#!/usr/bin/env bash
# Installs a package into a fresh Debian, uses it there, and removes it without a trace.
#
#   tests/packaging/debian.sh PACKAGE.deb MODEL_FOLDER REQUESTS.jsonl
#
# Needs root, debootstrap and a mirror; without them it says so and skips (status 77).
set -euo pipefail

suite=${CLEF_DEBIAN_SUITE:-bookworm}
mirror=${CLEF_DEBIAN_MIRROR:-http://deb.debian.org/debian}

skip() { echo "SKIPPED: $*" >&2; exit 77; }
say() { echo "debian: $*"; }
fail() { echo "debian: FAILED: $*" >&2; exit 1; }

[ $# = 3 ] || { echo "usage: tests/packaging/debian.sh PACKAGE.deb MODEL_FOLDER REQUESTS.jsonl" >&2; exit 2; }
package=$(realpath "$1") model=$(realpath "$2") requests=$(realpath "$3")
[ "$(id -u)" = 0 ] || skip "a chroot needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap"

root=$(mktemp -d "${TMPDIR:-/tmp}/clef-debian-XXXXXX")
cleanup() {
  umount "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"; }

say "a fresh $suite from $mirror"
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 || { tail -5 "$root.log" >&2; rm -f "$root.log"; skip "debootstrap failed: no mirror?"; }
rm -f "$root.log"
mount -t proc proc "$root/proc"
# The machine's own way to its mirror: names, proxies, certificates.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
for conf in /etc/apt/apt.conf.d/*proxy* /etc/apt/apt.conf; do if [ -f "$conf" ]; then cp "$conf" "$root/etc/apt/apt.conf.d/"; fi; done
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" && chmod +x "$root/usr/sbin/policy-rc.d"
inside apt-get update -q >/dev/null || skip "the mirror is not reachable from inside"

# What the package needs is installed first, so that the listing before and after differs by the package alone.
depends=$(dpkg-deb -f "$package" Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/,/ /g')
# shellcheck disable=SC2086  # one word a package
inside apt-get install -q -y --no-install-recommends $depends >/dev/null
listing() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./run -o -path ./var/cache -o -path ./var/lib/apt -o -path ./var/lib/dpkg -o -path ./var/log -o -path ./tmp -o -path ./root \) -prune -o -print | sort); }
before=$(listing)

say "install"
cp "$package" "$root/tmp/cleffa.deb"
inside apt-get install -q -y --no-install-recommends /tmp/cleffa.deb >/dev/null
inside getent passwd clef-server >/dev/null || fail "the service has no user"
[ "$(inside stat -c %a:%G /etc/clef-server)" = 750:clef-server ] || fail "/etc/clef-server is open"
test -f "$root/usr/lib/systemd/system/clef-server.service" || fail "no unit"
grep -q '^ExecStart=/usr/bin/clef-server ' "$root/usr/lib/systemd/system/clef-server.service" || fail "the unit starts another program"
for program in clef clef-server clef-tool clef-bench; do
  inside "$program" --help >/dev/null || fail "$program --help"
  test -s "$root/usr/share/man/man1/$program.1" || fail "no man page of $program"
  inside bash -n "/usr/share/bash-completion/completions/$program" || fail "completion of $program"
done

say "clef doctor"
inside clef doctor
inside clef doctor --json --no-measure >/dev/null

say "the demo model that came with the package"
answer=$(inside clef --format json --state 'The checkout is down, nobody can pay.' --ask 'outage: Is there an outage?')
grep -q '"answers":{"outage":{"type":"noul","noul":0\.' <<<"$answer" || fail "no answer without -m: $answer"

say "a model of one's own"
mkdir "$root/tmp/model"
cp -rL "$model"/. "$root/tmp/model/"
cp "$requests" "$root/tmp/requests.jsonl"
inside clef -m /tmp/model --format table /tmp/requests.jsonl >"$root/tmp/table"
head -8 "$root/tmp/table"
answers=$(inside clef -m /tmp/model --format json /tmp/requests.jsonl)
[ "$(wc -l <<<"$answers")" = "$(grep -c . "$requests")" ] || fail "not every request was answered"
grep -q '"answers"' <<<"$answers" || fail "no answers"
inside clef-tool convert /tmp/model /tmp/model.gguf >/dev/null
inside clef-tool verify /tmp/model /tmp/model.gguf >/dev/null || fail "the converted model differs"
if inside clef-tool fetch nothing 2>/dev/null; then fail "a wrong name was fetched"; fi

say "the package's own files are as they were packed"
inside dpkg --verify cleffa || fail "dpkg --verify"

say "an upgrade keeps a changed configuration"
echo "# changed" >>"$root/etc/clef-server/clef-server.conf"
inside apt-get install -q -y --reinstall /tmp/cleffa.deb -o Dpkg::Options::=--force-confold >/dev/null
grep -q '^# changed' "$root/etc/clef-server/clef-server.conf" || fail "the configuration was overwritten"

say "remove"
inside apt-get remove -q -y cleffa >/dev/null
test ! -e "$root/usr/bin/clef" || fail "a program is left"
test -f "$root/etc/clef-server/clef-server.conf" || fail "remove took the configuration with it"
inside apt-get purge -q -y cleffa >/dev/null
left=$(comm -13 <(echo "$before") <(listing) | grep -v -e '^./etc/passwd-$' -e '^./etc/group-$' -e '^./etc/shadow-$' -e '^./etc/gshadow-$' -e '^./etc/subuid-$' -e '^./etc/subgid-$' || true)
[ -z "$left" ] || fail "left behind: $left"
say "installed, used and removed cleanly"
