#!/bin/bash
# Builds everything that a release consists of, from the committed tree alone, and checks it.
#   scripts/release.sh [--all] OUT              into the folder OUT, which is empty or absent: source archive, Debian packages, archive for any
#                                               folder, Python sdist and wheel, Rust crates, SHA256SUMS. What could not be built here is
#                                               named at the end; with --all that is an error
#   scripts/release.sh --check-versions [TREE]  the version is the same in all places
#   scripts/release.sh --list-versions [TREE]   the files of these places
# Exits with 0; with 1 and a sentence where something is wrong; with 2 where the arguments are.
set -eu
cd "$(dirname "$0")/.."
fail() { echo "release: $*" >&2; exit 1; }
usage() { echo "release: $1 (known: [--all] OUT, --check-versions [TREE], --list-versions [TREE])" >&2; exit 2; }

# Where the version stands: a file and an extended regular expression of what is left and right of it. @V@ is three numbers, @M@ the first
# two. Every match has to be the version; of changes, the newest entry.
places() {
  cat <<'END OF PLACES'
CMakeLists.txt                             ^project\(quire VERSION @V@
CITATION.cff                               ^version: @V@$
pyproject.toml                             ^version = "@V@"
bindings/rust/quire-sys/Cargo.toml         ^version = "@V@"
bindings/rust/quire/Cargo.toml             version = "@V@"
bindings/rust/Cargo.lock                   ^version = "@V@"
samples/rust/Cargo.toml                    ^version = "@V@"
samples/go/go.mod                          ^require .* v@V@
bindings/go/quire/README.md                require .* v@V@
bindings/go/quire/README.md                `bindings/go/v@V@`
docs/in-your-engine.md                     require .* v@V@
cmake/debian/changelog                     ^quire \(@V@\)
cmake/debian/shlibs                        \(>= @V@\)
cmake/debian/zmq/shlibs                    \(>= @V@\)
cmake/debian/exporter/shlibs               \(>= @V@\)
CHANGELOG.md                               ^## @V@
abi/include/quire/base.h                   version as text, e\.g\. "@V@"
drivers/cpu/cpu_device.cc                  ^ *"@V@",
drivers/null/null_driver.c                 \.version = "@V@"
drivers/cuda/cuda_module.cc                "cuda", "@V@"
drivers/rocm/rocm_module.cc                "rocm", "@V@"
drivers/gpu/emulation/emulation_module.cc  "emulation", "@V@"
plugins/common/module.h                    ^ *"@V@",
plugins/null/null_connector.c              \.version = "@V@"
docs/man/*.1                               ^\.TH .* "quire @M@"
cmake/quire.pc.in                          ^abi_version=@M@$
END OF PLACES
}

versions_in() {  # versions_in FILE EXPRESSION: one a line
  local expression=${2//@V@/([0-9]+\\.[0-9]+\\.[0-9]+)}
  expression=${expression//@M@/([0-9]+\\.[0-9]+)}
  sed -nE "/${expression//\//\\/}/ s~^.*${expression#^}.*~\1~p" "$1"
}

list_versions() {  # list_versions TREE
  local file expression each
  [ -f "$1/CMakeLists.txt" ] || fail "$1 is no tree of quire: it has no CMakeLists.txt"
  while read -r file expression; do
    for each in "$1"/$file; do echo "${each#"$1"/}"; done
  done < <(places) | sort -u
}

check_versions() {  # check_versions TREE: prints what is wrong
  local tree=$1 version file expression each got wanted count=0 wrong=0 day
  [ -f "$tree/CMakeLists.txt" ] || fail "$tree is no tree of quire: it has no CMakeLists.txt"
  version=$(versions_in "$tree/CMakeLists.txt" '^project\(quire VERSION @V@')
  [ -n "$version" ] || fail "CMakeLists.txt: no 'project(quire VERSION X.Y.Z' was found"
  while read -r file expression; do
    wanted=$version
    case $expression in *@M@*) wanted=${version%.*} ;; esac
    for each in "$tree"/$file; do
      [ -f "$each" ] || { echo "${each#"$tree"/}: is not there, and should state the version"; wrong=$((wrong + 1)); continue; }
      got=$(versions_in "$each" "$expression")
      case $file in CHANGELOG.md|*/changelog) got=$(head -n 1 <<<"$got") ;; esac
      [ -n "$got" ] || { echo "${each#"$tree"/}: no version was found where it should stand: $expression"; wrong=$((wrong + 1)); continue; }
      for got in $got; do
        count=$((count + 1))
        [ "$got" = "$wanted" ] || { echo "${each#"$tree"/}: states $got; CMakeLists.txt states $version"; wrong=$((wrong + 1)); }
      done
    done
  done < <(places)
  day=$(date -u -d "$(sed -nE 's/^ -- .*>  (.*)/\1/p' "$tree/cmake/debian/changelog" | head -n 1)" +%F)
  grep -qx "date-released: $day" "$tree/CITATION.cff" ||
    { echo "CITATION.cff: date-released is not $day, the day in cmake/debian/changelog"; wrong=$((wrong + 1)); }
  [ $wrong -eq 0 ] || fail "$wrong of $count places are not of version $version"
  echo "version $version in $count places"
}

all=0
out=""
while [ $# -gt 0 ]; do
  case $1 in
    --check-versions) [ $# -le 2 ] || usage "too many arguments"; check_versions "${2:-.}"; exit 0 ;;
    --list-versions) [ $# -le 2 ] || usage "too many arguments"; list_versions "${2:-.}"; exit 0 ;;
    --all) all=1 ;;
    -*) usage "unknown argument '$1'" ;;
    *) [ -z "$out" ] || usage "two folders, '$out' and '$1'"; out=$1 ;;
  esac
  shift
done
[ -n "$out" ] || usage "the folder OUT is missing"

# A release is what is committed.
check_versions .
version=$(versions_in CMakeLists.txt '^project\(quire VERSION @V@')
git rev-parse --git-dir >/dev/null 2>&1 || fail "this is no git checkout, so nothing says what the release consists of"
changes=$(git status --porcelain)
[ -z "$changes" ] || { echo "$changes" >&2; fail "the tree has changes that are not committed"; }
[ ! -e "$out" ] || [ -z "$(ls -A "$out")" ] || fail "$out is not empty"
mkdir -p "$out"
out=$(cd "$out" && pwd)
commit=$(git rev-parse HEAD)
missing=()
[ "$(git describe --exact-match --tags HEAD 2>/dev/null)" = "v$version" ] || missing+=("the tag v$version: this commit does not have it")
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() {  # step NAME COMMAND...: its output is shown where it fails
  local name=$1 start=$SECONDS code
  shift
  set +e  # for it ends at its first failure only where nobody asks for its status
  (set -e; "$@") >"$work/log" 2>&1
  code=$?
  set -e
  [ $code -eq 0 ] || { tail -n 40 "$work/log" >&2; fail "$name failed ($code)"; }
  echo "$name: $((SECONDS - start)) s"
}

# Everything else is built from the archive, so that it is complete.
source_archive() {
  git archive --format=tar --prefix="quire-$version/" "$commit" >"$work/source.tar"
  gzip -9n <"$work/source.tar" >"$out/quire-$version.tar.gz"
  tar -xf "$work/source.tar" -C "$work"
}
step "source archive" source_archive
tree=$work/quire-$version
build=$tree/build/release

build_release() {
  cd "$tree"
  cmake --preset release -DQUIRE_UNITY=ON -DCMAKE_INSTALL_PREFIX=/usr/local
  cmake --build --preset release -j "$(nproc)" --target quire_installed
}
step "build" build_release
pack() { (cd "$build" && cpack -G "$1" -B "$work/packed"); cp "$work"/packed/*."$2" "$out"; }
if command -v dpkg-deb >/dev/null; then
  step "Debian packages" pack DEB deb
else
  missing+=("Debian packages: dpkg-deb is not installed")
fi
step "archive for any folder" pack TGZ tar.gz
step "its test" "$tree/tests/install/tarball.sh" cpack "$build" "$out/quire-$version-linux-$(uname -m).tar.gz"

# Python. The sdist holds what `pip install` needs; the wheel is made of the sdist. auditwheel gives it the name that indexes take.
python_package() {
  cd "$tree"
  python3 -m build --no-isolation --outdir "$work/python" .
  if [ $repairs = 1 ]; then
    python3 -m auditwheel repair --plat auto -w "$work/repaired" "$work"/python/*.whl
    rm "$work"/python/*.whl
    mv "$work"/repaired/*.whl "$work/python"
  fi
  cp "$work"/python/* "$out"
}
repairs=0
! python3 -c 'import auditwheel' 2>/dev/null || ! command -v patchelf >/dev/null || repairs=1
lacks=""
for module in build scikit_build_core; do python3 -c "import $module" 2>/dev/null || lacks="$lacks $module"; done
if [ -z "$lacks" ]; then
  step "Python sdist and wheel" python_package
  [ $repairs = 1 ] || missing+=("a wheel that indexes take: auditwheel or patchelf is not installed, so its name says linux only")
else
  missing+=("Python sdist and wheel: python3 lacks$lacks (pip install build scikit-build-core)")
fi

# Rust. Crates are not compiled here: scripts/test.sh does that. quire-kv-sys has the library's source in it. quire-kv needs quire-kv-sys as a
# registry has it, so that one is put where cargo looks instead.
crate() {
  local here=(--config 'source.crates-io.replace-with="here"' --config "source.here.directory=\"$work/crates\"")
  cd "$tree/bindings/rust"
  CARGO_TARGET_DIR=$work/cargo cargo package --offline --no-verify --allow-dirty "${here[@]}" -p "$1"
  cp "$work/cargo/package/$1-$version.crate" "$out"
  tar -xzf "$out/$1-$version.crate" -C "$work/crates"
  echo "{\"files\": {}, \"package\": \"$(sha256sum "$out/$1-$version.crate" | cut -d ' ' -f 1)\"}" >"$work/crates/$1-$version/.cargo-checksum.json"
}
mkdir "$work/crates"
if command -v cargo >/dev/null; then
  step "source for the crate" "$tree/bindings/rust/vendor.sh"
  for name in quire-kv-sys quire-kv; do step "crate $name" crate $name; done
  tar -tzf "$out/quire-kv-sys-$version.crate" | grep -q /vendor/CMakeLists.txt || fail "the crate quire-kv-sys lacks the library's source"
else
  missing+=("Rust crates: cargo is not installed")
fi

(cd "$out" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%f\n' | sort | xargs sha256sum >SHA256SUMS && sha256sum --quiet -c SHA256SUMS) ||
  fail "the checksums are not those of the files"
# Every name has the version, and nothing else came along.
while read -r _ file; do
  case $file in *"$version"*) ;; *) fail "$file is not of version $version" ;; esac
done <"$out/SHA256SUMS"
echo
(cd "$out" && ls -l --time-style=+ | awk 'NR > 1 { printf "%10d  %s\n", $5, $NF }')
echo "version $version, commit $commit: $(wc -l <"$out/SHA256SUMS") files, their checksums are in SHA256SUMS and were verified"
if [ ${#missing[@]} -gt 0 ]; then
  printf 'not there: %s\n' "${missing[@]}"
  [ $all = 0 ] || fail "${#missing[@]} parts are missing"
fi
