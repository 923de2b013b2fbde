#!/bin/sh
# Installs the Debian packages that building and testing quire needs. Idempotent: does nothing when all of them are there.
#   scripts/setup.sh [--extras|--aarch64]
#     --extras   also, where possible, the tools of other languages that a few tests want (test.sh asks for them)
#     --aarch64  also what the preset aarch64 needs: a cross compiler, QEMU's user mode, and libraries of Debian's architecture arm64
# As root it installs; otherwise it prints what it would install and the command for it, and exits with 3.
set -eu

packages="
g++ cmake ninja-build pkg-config
nlohmann-json3-dev libspdlog-dev libdlpack-dev libxxhash-dev libssl-dev libcli11-dev libffi-dev
libgtest-dev libbenchmark-dev zlib1g-dev iproute2 liburing-dev libhiredis-dev redis-server libucx-dev libzmq3-dev libcivetweb-dev
libdnnl-dev libpcre2-dev
clang libclang-rt-dev clang-format clang-tidy doxygen python3-numpy python3-cffi python3-prometheus-client python3-pycparser abigail-tools
"
extras=""
foreign=""
[ $# -le 1 ] || { echo "setup: at most one argument (known: --extras, --aarch64)" >&2; exit 2; }
case "${1-}" in
  --extras) extras="bindgen golang-go rustc cargo rust-clippy rustfmt hipcc python3-yaml python3-sphinx python3-myst-parser python3-breathe furo mandoc" ;; # without them their tests say that they were skipped
  --aarch64)  # the compiler is that of crossbuild-essential-arm64, without what makes Debian packages of other sources
    foreign="g++-aarch64-linux-gnu qemu-user libspdlog-dev:arm64 libxxhash-dev:arm64 libssl-dev:arm64 libffi-dev:arm64 libgtest-dev:arm64
      libbenchmark-dev:arm64 zlib1g-dev:arm64 liburing-dev:arm64 libhiredis-dev:arm64" ;;
  "") ;;
  *) echo "setup: unknown argument '$1' (known: --extras, --aarch64)" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  echo "setup: this is no Debian system (dpkg-query and apt-get are absent). Install the equivalents of:"
  # shellcheck disable=SC2086,SC2116
  echo "  $(echo $packages)"
  exit 3
fi

native=$(dpkg --print-architecture)
absent() {  # absent PACKAGE...: those that are not installed; a name without an architecture is that of this machine
  for package in "$@"; do
    case $package in *:*) architecture=${package##*:} ;; *) architecture=$native ;; esac
    dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null | grep -qxE "($architecture|all) installed" ||
      printf ' %s' "$package"
  done
}
# shellcheck disable=SC2086
missing=$(absent $packages)
# shellcheck disable=SC2086
missing_extras=$(absent $extras)
# shellcheck disable=SC2086
missing_foreign=$(absent $foreign)

if [ -z "$missing$missing_foreign" ] && { [ -z "$missing_extras" ] || [ "$(id -u)" -ne 0 ]; }; then
  echo "setup: all packages are installed${missing_extras:+ but for the tools of a few tests:$missing_extras}"
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "setup: would install:$missing$missing_foreign"
  architecture=${missing_foreign:+"sudo dpkg --add-architecture arm64 && "}
  echo "setup: not root; run:  ${architecture}sudo apt-get update && sudo apt-get install --no-install-recommends -y$missing$missing_foreign"
  exit 3
fi

export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  apt-get update -q
  # shellcheck disable=SC2086
  apt-get install -q -y --no-install-recommends $missing
fi
if [ -n "$missing_foreign" ]; then
  echo "setup: installing$missing_foreign"
  dpkg --add-architecture arm64
  apt-get update -q
  # Both architectures need the same versions, so apt may bring this machine's up to date; it must remove none.
  # shellcheck disable=SC2086
  planned=$(apt-get install -s --no-install-recommends $missing_foreign) || { echo "setup: apt cannot install them" >&2; exit 1; }
  removed=$(printf '%s\n' "$planned" | sed -n 's/^Remv \([^ ]*\).*/ \1/p' | tr -d '\n')
  [ -z "$removed" ] || { echo "setup: nothing was installed, since apt would remove$removed" >&2; exit 1; }
  # shellcheck disable=SC2086
  apt-get install -q -y --no-install-recommends $missing_foreign
fi
if [ -n "$missing_extras" ]; then
  echo "setup: installing$missing_extras"
  # shellcheck disable=SC2086
  if ! apt-get install -q -y --no-install-recommends $missing_extras >/dev/null 2>&1; then
    apt-get update -q >/dev/null 2>&1 || true
    for package in $missing_extras; do  # what one of them lacks is no reason to do without the others
      apt-get install -q -y --no-install-recommends "$package" >/dev/null 2>&1 ||
        echo "setup: could not install $package; the tests that want it will say so"
    done
  fi
fi
echo "setup: done"
