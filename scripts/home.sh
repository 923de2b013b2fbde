#!/bin/bash
# home.sh                prints the address of the repository, which CMakeLists.txt names (HOMEPAGE_URL)
# home.sh --set URL      names another one everywhere: pkg-config files, crates, the Python package, and the module path of Go, of which every
#                        import is a part. tests/bindings/module_path.sh compares all of them. Then take out of bindings/go/quire/README.md
#                        what it says of a host that stands for none.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
home=$(sed -nE 's/.*HOMEPAGE_URL +(https:\/\/[^ )]+).*/\1/p' "$top/CMakeLists.txt")
[ -n "$home" ] || { echo "home.sh: CMakeLists.txt names no HOMEPAGE_URL" >&2; exit 1; }
case ${1-} in
  "") echo "$home"; exit 0 ;;
  --set) ;;
  *) echo "home.sh: unknown argument '$1' (known: --set URL)" >&2; exit 2 ;;
esac
new=${2-}
# What go get takes: a host with a dot, and a path.
grep -qxE 'https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_.-]+)+' <<<"$new" ||
  { echo "home.sh: '$new' is no address such as https://host.org/owner/quire" >&2; exit 2; }
old=${home#https://}
cd "$top"
git grep -lF "$old" -- . ':!docs/decisions' | while read -r file; do
  OLD=$old NEW=${new#https://} perl -pi -e 's/\Q$ENV{OLD}\E/$ENV{NEW}/g' "$file"
done
echo "$new"
