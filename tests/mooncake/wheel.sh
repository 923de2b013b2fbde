#!/bin/bash
# wheel.sh TEST LIBRARY: the mooncake connector over a true store: a master, a process that gives memory, and the client of the package
# mooncake-transfer-engine-non-cuda (PyPI), called through LIBRARY. QUIRE_MOONCAKE names a Python that has the package; it needs
# libibverbs1, libnuma1 (Debian) and the right to make a network namespace, for Mooncake knows no passwords and wants more than loopback:
#   python3 -m venv peer && peer/bin/pip install mooncake-transfer-engine-non-cuda
#   QUIRE_MOONCAKE=peer/bin/python tests/mooncake/wheel.sh build/release/tests/mooncake_wheel_test build/release/tests/libquire_wheel_mooncake.so
# Exit code 77: something of this is not there.
set -u
skip() { echo "skipped: $*"; exit 77; }
test=$1 library=$2 here=$(cd "$(dirname "$0")" && pwd)
python=${QUIRE_MOONCAKE:-}
[ -n "$python" ] || skip "QUIRE_MOONCAKE names no Python that has Mooncake's package"
if [ "${3:-}" != inside ]; then
  "$python" -c 'import mooncake.store' 2>/dev/null || skip "$python cannot import mooncake.store"
  unshare -n true 2>/dev/null || skip "no network namespace can be made here"
  command -v ip >/dev/null || skip "ip (iproute2) is not there"
  exec unshare -n bash "$0" "$test" "$library" inside
fi
libpython=$("$python" -c 'import sysconfig as s, os; print(os.path.join(s.get_config_var("LIBDIR"), s.get_config_var("LDLIBRARY")))')
case $libpython in *.so*) ;; *) skip "$python has no shared library: $libpython" ;; esac
[ -e "$libpython" ] || skip "$libpython is not there"
packages=$("$python" -c 'import mooncake, os; print(os.path.dirname(os.path.dirname(mooncake.__file__)))')
ip link set lo up
ip link add quire0 type veth peer name quire1 || skip "no pair of network devices can be made here"
ip addr add 10.77.0.1/24 dev quire0 && ip link set quire0 up && ip link set quire1 up
work=$(mktemp -d) master= holder=
end() {
  exec 9>&-
  for pid in $holder $master; do kill -CONT "$pid" 2>/dev/null; kill -9 "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap end EXIT
cd "$work" || exit 1
export QUIRE_PEER="10.77.0.1 http://10.77.0.1:8980/metadata 10.77.0.1:50951"
"$packages/mooncake/mooncake_master" -rpc_port 50951 -enable_http_metadata_server=true -http_metadata_server_port 8980 \
  -metrics_port 9903 >master.log 2>&1 &
master=$!
for ((i = 0; i < 100; ++i)); do
  (exec 3<>/dev/tcp/10.77.0.1/50951) 2>/dev/null && break
  sleep 0.1
done
mkfifo hold
# shellcheck disable=SC2086  # words
"$python" "$here/wheel_peer.py" $QUIRE_PEER hold $((192 << 20)) <hold >holder.log 2>&1 &
holder=$!
exec 9>hold
for ((i = 0; i < 300; ++i)); do
  grep -q ready holder.log && break
  kill -0 "$holder" 2>/dev/null || break
  sleep 0.1
done
grep -q ready holder.log || { cat holder.log master.log; echo "FAILED: the store does not begin"; exit 1; }
export PYTHONPATH=$packages QUIRE_MOONCAKE_LIBPYTHON=$libpython QUIRE_WHEEL_LIBRARY=$library
export QUIRE_HOLDER=$holder QUIRE_MASTER=$master QUIRE_PEER_COMMAND="$python $here/wheel_peer.py $QUIRE_PEER"
"$test" 2>client.log
code=$?
[ $code -eq 0 ] || tail -30 client.log
exit $code
