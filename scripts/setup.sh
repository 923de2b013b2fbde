#!/bin/sh
# Installs the Debian packages that building and testing quire needs. Idempotent: does nothing when all of them are there.
#   scripts/setup.sh [--extras]      --extras: also, where possible, the tools of other languages that a few tests want (test.sh asks for them)
# As root it installs; otherwise it prints what it would install and the command for it, and exits with 3.
set -eu

packages="
g++ cmake ninja-build pkg-config
nlohmann-json3-dev libspdlog-dev libdlpack-dev libxxhash-dev libssl-dev libcli11-dev libffi-dev
libgtest-dev libbenchmark-dev zlib1g-dev liburing-dev libhiredis-dev redis-server libzmq3-dev libcivetweb-dev
clang libclang-rt-dev clang-format clang-tidy doxygen python3-numpy python3-cffi python3-prometheus-client python3-pycparser abigail-tools
"
extras=""
case "${1-}" in
  --extras) extras="bindgen golang-go rustc cargo rust-clippy rustfmt hipcc python3-sphinx python3-myst-parser python3-breathe furo mandoc" ;; # without them their tests say that they were skipped
  "") ;;
  *) echo "setup: unknown argument '$1' (known: --extras)" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
  echo "setup: this is no Debian system (dpkg-query and apt-get are absent). Install the equivalents of:"
  # shellcheck disable=SC2086,SC2116
  echo "  $(echo $packages)"
  exit 3
fi

absent() {  # absent PACKAGE...: those that are not installed
  for package in "$@"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || printf ' %s' "$package"
  done
}
# shellcheck disable=SC2086
missing=$(absent $packages)
# shellcheck disable=SC2086
missing_extras=$(absent $extras)

if [ -z "$missing" ] && { [ -z "$missing_extras" ] || [ "$(id -u)" -ne 0 ]; }; then
  echo "setup: all packages are installed${missing_extras:+ but for the tools of a few tests:$missing_extras}"
  exit 0
fi
if [ "$(id -u)" -ne 0 ]; then
  echo "setup: would install:$missing"
  echo "setup: not root; run:  sudo apt-get update && sudo apt-get install --no-install-recommends -y$missing"
  exit 3
fi

export DEBIAN_FRONTEND=noninteractive
if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  apt-get update -q
  # shellcheck disable=SC2086
  apt-get install -q -y --no-install-recommends $missing
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
