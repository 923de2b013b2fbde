#!/bin/bash
# rust.sh CMAKE BUILD SOURCE: the Rust crates against a scratch installation: tests and examples of the documentation with the oldest compiler
# at hand, without network; clippy and rustfmt where a toolchain has them. QUIRE_FULL=1: the feature `vendored` builds the library, too.
set -eu
cmake=$1 build=$2 source=$3
work=$build/bindings/rust
mkdir -p "$work"
umask 022

# Debian's own is the oldest that is promised; another one in PATH is the newest.
oldest=$(command -v /usr/bin/cargo || command -v cargo) ||
  { echo "skipped: cargo is not installed, so the Rust binding is not tested"; exit 77; }
newest=$(command -v cargo)

rm -rf "$work/prefix"
for component in library dev static driver_cpu driver_null connector_null connector_host connector_ucx; do
  "$cmake" --install "$build" --prefix "$work/prefix" --component $component >"$work/log" || { cat "$work/log"; exit 1; }
done
lib=$(dirname "$(find "$work/prefix" -name libquire.so)")
export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib CARGO_NET_OFFLINE=true CARGO_INCREMENTAL=0 RUST_BACKTRACE=0
unset QUIRE_DRIVER QUIRE_DRIVER_PATH QUIRE_CONNECTOR_PATH QUIRE_LIB_DIR QUIRE_DIR QUIRE_STATIC_DIR DOCS_RS
cd "$source/bindings/rust"

oldest_do() { PATH=$(dirname "$oldest"):$PATH CARGO_TARGET_DIR=$work/target "$oldest" "$@"; }
newest_do() { CARGO_TARGET_DIR=$work/newest "$newest" "$@"; }

oldest_do --version
mkdir -p "$work/own" # a module outside of the tree, whose op is called
gcc -shared -fPIC -I"$work/prefix/include" "$source/samples/own_driver/own_driver.c" -o "$work/own/libquire_driver_own.so"
# The same as a device of another kind, whose memory no other device's stream may touch.
sed 's/"own"/"far"/; s/QUIRE_DEVICE_CPU/QUIRE_DEVICE_CUDA/' "$source/samples/own_driver/own_driver.c" |
  gcc -shared -fPIC -I"$work/prefix/include" -x c - -o "$work/own/libquire_driver_far.so"
export QUIRE_OWN_DRIVER=$work/own
oldest_do test --quiet --offline --locked --workspace --no-fail-fast >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
awk '/^test result: ok/ { passed += $4 } END { print "tests and examples: " passed " passed" }' "$work/log"

# The examples of the crate that are no stories.
say() { cat "$work/log"; echo "FAILED: the example $1"; exit 1; }
"$work/target/debug/examples/plan" >"$work/log" 2>&1 || say plan
grep -q "sequences of 4096 tokens can decode together" "$work/log" || say plan
"$work/target/debug/examples/plan" "$source/samples/models/falcon-h1-7b.json" 24 >"$work/log" 2>&1 || say plan
! "$work/target/debug/examples/plan" /nonexistent >"$work/log" 2>&1 || say "plan: it takes a file that is absent"
tiers_story() { # PROGRAM
  QUIRE_DRIVER=cpu "$1" >"$work/log" 2>&1 || say tiers
  printf '%s\n' "computed 64 tokens" "4 units are in tier \`host\`" "fetched: Done, 64 tokens" "metrics were written meanwhile: true" |
    diff - "$work/log" || say tiers
}
tiers_story "$work/target/debug/examples/tiers"

# The samples print what those in other languages print.
oldest_do build --quiet --offline --locked --bins >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
compare() { "$source/samples/expected/compare.sh" "$work/target/debug/$1" "$(basename "$1")" "$2"; }
for story in hello hybrid driver_swap dlpack step_loop engine examples/dlpack examples/step_loop; do
  compare $story cpu
  compare $story null
  compare $story "?"
done
compare driver_swap none
if QUIRE_DRIVER=cpu "$work/target/debug/engine" fault >"$work/log"; then
  echo "FAILED: samples/rust/engine does not notice prefixes of other tenants"
  exit 1
fi
echo "samples/rust: five stories and an engine print what is expected, with the drivers cpu, null and none, and refuse what is no name"

# Two processes, one sequence.
if [ -n "$(find "$work/prefix" -name libquire_connector_ucx.so)" ]; then
  for fault in "" fault; do
    ended=0 wrong=0
    [ -z "$fault" ] || ended=1 wrong=20
    code=0
    # shellcheck disable=SC2086
    QUIRE_DRIVER=cpu "$work/target/debug/disaggregated" $fault >"$work/log" 2>&1 || code=$?
    [ $code -eq $ended ] || say "disaggregated $fault"
    printf '%s\n' "prefill: offers 288 tokens, and computes them" "decode: Done, 288 tokens came" \
      "decode: verified 20 rows, $wrong mismatches" "prefill: the offer has ended" | diff - "$work/log" || say "disaggregated $fault"
  done
  echo "samples/rust/disaggregated: a prompt moves to another process, and a wrong row is noticed there"
else
  echo "samples/rust/disaggregated is not run: the connector ucx is not built"
fi

# The Rust code of docs/in-your-engine.md, all blocks one behind the other, run by engine_guide.rs.
mkdir -p "$work/guide/src"
{
  echo '#![deny(warnings)]'
  awk '/^```/ { inside = $0 == "```rust"; next } inside' "$source/docs/in-your-engine.md"
  cat "$source/tests/bindings/engine_guide.rs"
} >"$work/guide/src/main.rs"
printf '[package]\nname = "guide"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n[dependencies]\nquire-kv = { path = "%s" }\n' "$PWD/quire" >"$work/guide/Cargo.toml"
(cd "$work/guide" && QUIRE_DRIVER=null oldest_do run --quiet --offline) || exit 1

# The library by dlopen, with nothing to link; one of another version is refused before anything of it is called.
echo 'unsigned quire_abi_version(void) { return 3; }' | gcc -shared -fPIC -x c - -o "$work/own/libother_version.so"
(cd quire && QUIRE_OTHER_VERSION=$work/own/libother_version.so PKG_CONFIG_PATH=/nonexistent QUIRE_LIBRARY=$lib/libquire.so.0 oldest_do test --quiet --offline --locked --features dlopen --test bookkeeping --test absent) \
  >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo "dlopen: bookkeeping runs with nothing linked; a library that is absent or of another version is an error"

# Where the library is: a prefix, the folder itself, or pkg-config; without any of them the build says what to set.
find_do() { PATH=$(dirname "$oldest"):$PATH CARGO_TARGET_DIR=$work/find "$oldest" "$@"; }
QUIRE_DIR=$work/prefix PKG_CONFIG_PATH=/nonexistent find_do check --quiet --offline --locked -p quire-kv-sys
QUIRE_LIB_DIR=$lib PKG_CONFIG_PATH=/nonexistent find_do check --quiet --offline --locked -p quire-kv-sys
for dir in "" /nonexistent; do
  if env ${dir:+QUIRE_DIR=$dir} PKG_CONFIG_PATH=/nonexistent PKG_CONFIG_LIBDIR=/nonexistent PATH="$(dirname "$oldest"):$PATH" \
    CARGO_TARGET_DIR="$work/find" "$oldest" check --offline --locked -p quire-kv-sys >"$work/log" 2>&1; then
    echo "FAILED: quire-kv-sys was built without a library"
    exit 1
  fi
  grep -q "set PKG_CONFIG_PATH to the folder of quire.pc, or QUIRE_DIR" "$work/log" || { cat "$work/log"; exit 1; }
done
echo "quire-kv-sys: QUIRE_DIR, QUIRE_LIB_DIR and pkg-config lead to the library; without it the build says what to set"

# The archive, linked into programs; and the packages as a registry would have them.
"$source/tests/bindings/rust_vendored.sh" "$oldest" "$newest" "$source" "$work" || exit 1

# What a module uses, pair by pair, in code; a circle is what tsort cannot sort.
for file in quire/src/*.rs; do
  sed 's/\/\/.*//' "$file" | grep -oE '\bcrate::[a-z_]+' | sed "s/.*::/$(basename "$file" .rs) /"
done | sort -u >"$work/uses"
[ "$(wc -l <"$work/uses")" -gt 80 ] || { echo "FAILED: the modules of the crate quire-kv use each other less than expected"; exit 1; }
tsort "$work/uses" >/dev/null || { echo "FAILED: the modules of the crate quire-kv use each other in a circle"; exit 1; }
echo "the modules of the crate quire-kv use each other in no circle"

if newest_do clippy --version >/dev/null 2>&1; then
  newest_do clippy --quiet --offline --locked --workspace --all-targets -- -D warnings
  echo "clippy: clean ($(newest_do --version))"
else
  echo "clippy is not installed with $newest: not run"
fi
# As docs.rs does it: nothing of the library is in sight, and nothing is built.
DOCS_RS=1 PKG_CONFIG=/nonexistent CMAKE=/nonexistent RUSTDOCFLAGS="-D warnings" \
  newest_do doc --quiet --offline --locked --no-deps -p quire-kv -p quire-kv-sys --features quire-kv/vendored >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
echo "rustdoc: clean, without a library"
if newest_do fmt --version >/dev/null 2>&1; then
  newest_do fmt --all --check
  echo "rustfmt: clean"
else
  echo "rustfmt is not installed with $newest: not run"
fi
