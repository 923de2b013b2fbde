#!/bin/bash
# rust_vendored.sh OLDEST NEWEST SOURCE WORK: the feature `vendored` of the Rust crates, by the cargo of the oldest and of the newest toolchain.
# WORK/prefix has an installation with libquire.a, which is linked instead of one that build.rs makes. With QUIRE_FULL=1 build.rs makes one, too,
# from the source that is in the package.
set -eu
oldest=$1 newest=$2 source=$3 work=$4
unset LD_LIBRARY_PATH PKG_CONFIG_PATH
export PKG_CONFIG=/nonexistent CMAKE=/nonexistent
lib=$(dirname "$(find "$work/prefix" -name libquire.a)")
modules=$lib/quire/0
failed() { cat "$work/log"; echo "FAILED: $1"; exit 1; }
cargo_do() { # CARGO TARGET ARGUMENT...
  PATH=$(dirname "$1"):$PATH CARGO_TARGET_DIR=$work/$2 "$1" "${@:3}" >"$work/log" 2>&1
}

# Programs with the library inside.
cd "$source/bindings/rust/quire"
export QUIRE_STATIC_DIR=$work/prefix
cargo_do "$oldest" vendored test --quiet --offline --locked --features vendored --test sequences || failed "tests with the archive"
cargo_do "$oldest" vendored build --quiet --offline --locked --features vendored --example plan --example tiers || failed "examples with the archive"
unset QUIRE_STATIC_DIR
"$work/vendored/debug/examples/plan" >"$work/log" 2>&1 || failed "the example plan with the archive"
QUIRE_DRIVER=cpu QUIRE_DRIVER_PATH=$modules QUIRE_CONNECTOR_PATH=$modules "$work/vendored/debug/examples/tiers" >"$work/log" 2>&1 &&
  grep -q "^fetched: Done, 64 tokens" "$work/log" || failed "the example tiers with the archive"
for example in plan tiers; do
  ! readelf -d "$work/vendored/debug/examples/$example" | grep NEEDED | grep -i quire || failed "$example needs a shared library of quire"
done
# Modules next to a program are found whatever the program is called.
mkdir -p "$work/moved/quire"
rm -rf "$work/moved/quire/0"
cp -R "$modules" "$work/moved/quire/0"
cp "$work/vendored/debug/examples/tiers" "$work/moved/"
(cd / && QUIRE_DRIVER=cpu exec -a tiers "$work/moved/tiers") >"$work/log" 2>&1 ||
  failed "modules in quire/0 next to a program are not found"

# What cannot be linked is said.
for wrong in "QUIRE_STATIC_DIR=/nonexistent:no libquire.a in lib" "CMAKE=/nonexistent:cmake is not installed"; do
  if env "${wrong%%:*}" PATH="$(dirname "$oldest"):$PATH" CARGO_TARGET_DIR="$work/find" "$oldest" check --offline --locked --features vendored \
    >"$work/log" 2>&1; then
    failed "the feature vendored with ${wrong%%:*}"
  fi
  grep -q "quire-kv-sys: .*${wrong#*:}" "$work/log" || failed "the feature vendored with ${wrong%%:*} does not say: ${wrong#*:}"
done
if cargo_do "$oldest" find check --offline --locked --features vendored,dlopen; then failed "vendored and dlopen together"; fi
grep -q "the features .vendored. and .dlopen. exclude each other" "$work/log" || failed "vendored and dlopen together: the reason"

# The packages, with the source inside.
rm -rf "$work/package"
mkdir -p "$work/package"
cp -R "$source/bindings/rust/quire" "$source/bindings/rust/quire-sys" "$work/package/"
"$source/bindings/rust/vendor.sh" "$work/package/quire-sys/vendor" >"$work/log" || failed "vendor.sh"
printf '[workspace]\nmembers = ["quire-sys", "quire"]\nresolver = "2"\n' >"$work/package/Cargo.toml"
cd "$work/package"
cargo_do "$oldest" package/target package --offline --no-verify --allow-dirty -p quire-kv-sys || failed "cargo package of quire-kv-sys"
(cd "$work/package/quire" && cargo_do "$oldest" package/target package --offline --allow-dirty --list) || failed "cargo package --list of quire-kv"
for file in README.md src/lib.rs src/sequence.rs examples/plan.rs examples/step_loop/main.rs tests/tiers.rs; do
  grep -qxF "$file" "$work/log" || failed "the package of quire-kv lacks $file"
done
crate=$(echo "$work"/package/target/package/quire-kv-sys-*.crate)
# Both crates as they are once they are published: that of the declarations is the one that was packaged.
rm -rf "$work/published"
mkdir -p "$work/published"
tar xzf "$crate" -C "$work/published"
mv "$work/published/"quire-kv-sys-* "$work/published/quire-sys"
mv "$work/package/quire" "$work/published/quire"
cp Cargo.toml "$work/published/"
cd "$work/published/quire-sys"
diff -r "$work/package/quire-sys/vendor" vendor >"$work/log" || failed "the package of quire-kv-sys lacks source"
size=$(stat -c %s "$crate")
[ "$size" -lt 5000000 ] || failed "the package of quire-kv-sys has $size bytes; registries take 10 MB"
DOCS_RS=1 cargo_do "$newest" newest doc --quiet --offline --features vendored || failed "documentation of the package"
cmake -S vendor -B "$work/configured" -DQUIRE_STATIC=ON -DQUIRE_TOOLS=OFF -DQUIRE_TESTS=OFF >"$work/log" 2>&1 ||
  failed "the source in the package cannot be configured"
echo "vendored: programs with the library inside; the packages are complete ($((size / 1024)) KiB), and document themselves without a library"

[ "${QUIRE_FULL:-0}" = 1 ] || { echo "skipped: the feature vendored builds the library itself with QUIRE_FULL=1 only"; exit 0; }
unset CMAKE
cd "$work/published/quire"
cargo_do "$oldest" built run --quiet --offline --features vendored --example plan || failed "the feature vendored does not build the library"
cargo_do "$oldest" built build --quiet --offline --features vendored --example tiers || failed "the example tiers with the library that was built"
modules=$(find "$work/built" -path '*quire/lib/quire/0' -type d)
QUIRE_DRIVER=cpu QUIRE_DRIVER_PATH=$modules QUIRE_CONNECTOR_PATH=$modules "$work/built/debug/examples/tiers" >"$work/log" 2>&1 ||
  failed "the example tiers with the library that was built"
echo "vendored: built from the source in the package"
