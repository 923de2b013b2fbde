#!/bin/bash
# secure.sh COMMAND MODULES: processes with privileges that their user lacks (set-uid, set-gid, file capabilities) ignore path variables and
# refuse paths in QUIRE_DRIVER; names are honoured. Run as user 65534 on copies of the quire command, from a folder that is not mounted nosuid.
set -u
command=$1 modules=$2
skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "making set-uid files and changing the user needs root"
command -v setpriv >/dev/null || skip "setpriv is not installed"
setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null || skip "this machine does not let the user be changed"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
findmnt -no OPTIONS --target "$work" 2>/dev/null | grep -qw nosuid && skip "$work is mounted nosuid"
mkdir -p "$work/evil"
cp "$modules/libquire_driver_null.so" "$work/evil/libquire_driver_null.so"
chmod -R a+rX,go-w "$work"

failed=0
# check NAME COMMAND-COPY: what an elevated process does.
check() {
  local name=$1 copy=$2 out
  as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
  out=$(QUIRE_DRIVER=null QUIRE_DRIVER_PATH=$work/evil as "$copy" info --probe 2>&1)
  grep -q "$work/evil" <<<"$out" && { echo "FAILED: $name: QUIRE_DRIVER_PATH was used:"; echo "$out"; failed=1; }
  out=$(QUIRE_DRIVER=$work/evil/libquire_driver_null.so as "$copy" info 2>&1)
  grep -q 'PERMISSION_DENIED.*elevated privileges' <<<"$out" || { echo "FAILED: $name: a path in QUIRE_DRIVER: $out"; failed=1; }
  out=$(QUIRE_LOG=warn QUIRE_DRIVER=null QUIRE_DRIVER_PATH=$work/evil as "$copy" info 2>&1)
  grep -q 'QUIRE_DRIVER_PATH is ignored' <<<"$out" || { echo "FAILED: $name: nobody says that QUIRE_DRIVER_PATH is ignored: $out"; failed=1; }
  out=$(QUIRE_DRIVER_PATH=relative/path QUIRE_DRIVER=none as "$copy" info 2>&1)
  grep -q 'device: none' <<<"$out" || { echo "FAILED: $name: a name in QUIRE_DRIVER is not honoured: $out"; failed=1; }
  echo "$name: path variables ignored, names honoured"
}

# The same copy without privileges: the variables work, so the checks above see a difference.
plain=$work/plain
cp "$command" "$plain"
chmod 755 "$plain"
out=$(QUIRE_DRIVER=null QUIRE_DRIVER_PATH=$work/evil setpriv --reuid=65534 --regid=65534 --clear-groups "$plain" info --probe 2>&1)
grep -q "$work/evil" <<<"$out" || skip "user 65534 cannot run the plain copy here: $(head -1 <<<"$out")"

cp "$command" "$work/setuid" && chown 1:1 "$work/setuid" && chmod 4755 "$work/setuid"
cp "$command" "$work/setgid" && chown 0:1 "$work/setgid" && chmod 2755 "$work/setgid"
check set-uid "$work/setuid"
check set-gid "$work/setgid"
if command -v setcap >/dev/null; then
  cp "$command" "$work/caps" && chmod 755 "$work/caps"
  if setcap cap_net_bind_service+ep "$work/caps" 2>/dev/null; then check "file capability" "$work/caps"; else echo "skipped: file capabilities cannot be stored here"; fi
else
  echo "skipped: setcap is not installed, so file capabilities are not tried"
fi
exit $failed
