#!/bin/bash
# pd_demo.sh [--loopback] [BIN]: samples/disaggregated with failures. Two processes compute prompts, two decode, each in a network namespace
# of its own. While requests run, some of them are killed and started again, and some are stopped for a second. Ends with
# "verified N rows, 0 mismatches, K recomputed". Without root, and with --loopback, all run on loopback. BIN: a folder of programs that are
# built. Needs iproute2; takes at most a minute.
set -u
cd "$(dirname "$0")/.."
loopback=
patience=500 seconds=45  # ms that a worker may be silent; of all
[ "${1:-}" != --loopback ] || { loopback=1 patience=2000 seconds=100 && shift; }  # as a test, where others need the cores
bin=${1:-}
if [ -z "$bin" ]; then
  bin=build/release/bin
  cmake --preset release >/dev/null && cmake --build --preset release -j "$(nproc)" --target quire_pd_router quire_pd_worker >/dev/null ||
    { echo "pd_demo: the sample is not built; it needs the connector ucx (scripts/setup.sh)" >&2; exit 2; }
fi
export QUIRE_DRIVER=cpu
work=$(mktemp -d)
net=qpd$$
router='' pids=('' '' '' '') made=()
roles=(prefill prefill decode decode)

cleanup() {
  trap '' INT TERM
  for pid in "$router" "${pids[@]}"; do
    [ -z "$pid" ] || { kill -KILL "$pid" && wait "$pid"; } 2>/dev/null
  done
  for name in ${made[@]+"${made[@]}"}; do ip netns del "$name"; done
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

make_namespace() { ip netns add "$1" 2>>"$work/net" && made+=("$1") && ip -n "$1" link set lo up; }
# A bridge for the router, and a cable from it to each worker.
make_network() {
  make_namespace "$net" && ip -n "$net" link add bridge type bridge && ip -n "$net" addr add 10.77.0.100/24 dev bridge &&
    ip -n "$net" link set bridge up || return 1
  for i in 0 1 2 3; do
    make_namespace "$net-$i" && ip -n "$net" link add "cable$i" type veth peer name eth0 netns "$net-$i" &&
      ip -n "$net" link set "cable$i" master bridge up && ip -n "$net-$i" addr add "10.77.0.$((i + 1))/24" dev eth0 &&
      ip -n "$net-$i" link set eth0 up || return 1
  done
}

if [ -n "$loopback" ]; then
  echo "all processes on loopback"
elif make_network >>"$work/net" 2>&1; then
  echo "each worker in a network namespace of its own: $net-0 to $net-3"
else
  loopback=1
  echo "no network namespaces can be made here (they need root and iproute2): all processes on loopback"
fi
address() { [ -n "$loopback" ] && echo 127.0.0.1 || echo "10.77.0.$1"; }
within() { # NAMESPACE COMMAND...: the process that calls it becomes the command
  local namespace=$1
  shift
  [ -n "$loopback" ] || exec ip netns exec "$namespace" "$@"
  exec "$@"
}

: >"$work/router"
(umask 077 && head -c 32 /dev/urandom >"$work/secret")
within "$net" "$bin/quire_pd_router" "$(address 100):0" 4 "$patience" "$seconds" -- --conversations 80 --turns 4 --open 16 >"$work/router" 2>&1 &
router=$!
for _ in {1..100}; do grep -q ^port "$work/router" && break; sleep 0.05; done
port=$(sed -nE 's/^port ([0-9]+)$/\1/p' "$work/router")
[ -n "$port" ] || { cat "$work/router"; echo "pd_demo: the router did not start" >&2; exit 3; }

start() { # WORKER, 0 to 3
  local role=${roles[$1]} own=()
  [ "$role" != prefill ] || own=(--listen "$(address $(($1 + 1)))")
  [ "$role" != decode ] || own=(--deadline 300)
  within "$net-$1" "$bin/quire_pd_worker" "$role" --router "$(address 100):$port" --secret "$work/secret" "${own[@]}" \
    -- --pool 32M --threads 1 >>"$work/worker$1" 2>&1 &
  pids[$1]=$!
}
after() { # N: waits until so many requests were answered, or the router ended
  until grep -q "^answered $1 " "$work/router" || ! kill -0 "$router" 2>/dev/null; do sleep 0.02; done
  kill -0 "$router" 2>/dev/null
}
kill_and_start() { # WORKER
  kill -KILL "${pids[$1]}"
  wait "${pids[$1]}" 2>/dev/null
  sleep 0.3
  start "$1"
}
stop_and_go() { # WORKER
  kill -STOP "${pids[$1]}"
  sleep 1
  kill -CONT "${pids[$1]}"
}
fail() { # ANSWERS WHAT WORKER TEXT
  after "$1" || return
  echo "after $1 answers: a ${roles[$3]} worker is $4"
  "$2" "$3"
}

for i in 0 1 2 3; do start $i; done
fail 40 kill_and_start 0 "killed, and started again"
fail 90 kill_and_start 2 "killed, and started again"
fail 140 stop_and_go 1 "stopped, for a second"
fail 190 stop_and_go 3 "stopped, for a second"
fail 240 kill_and_start 1 "killed, and started again"
wait "$router"
code=$?
router=
grep -v '^port\|^answered' "$work/router"
for i in 0 1 2 3; do
  wait "${pids[$i]}"
  ended=$?
  pids[$i]=
  if [ $ended -ne 0 ]; then cat "$work/worker$i"; echo "pd_demo: a ${roles[$i]} worker ended with $ended" >&2; [ $code -ne 0 ] || code=3; fi
done
exit $code
