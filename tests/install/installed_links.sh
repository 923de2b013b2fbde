#!/bin/bash
# installed_links.sh CMAKE BUILD: the links of installed documents lead to what is installed; faults are noticed.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$1" --install "$2" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
"$here/installed_links.py" "$work/prefix" || { echo "FAILED: installed documents have broken links (above)"; exit 1; }
documents=$(dirname "$(find "$work/prefix/share/doc" -name ARCHITECTURE.md)")
refused() { # refused WHAT: what was done to the installation is noticed
  if "$here/installed_links.py" "$work/prefix" >"$work/log"; then echo "FAILED: nobody noticed: $1"; exit 1; fi
}
mv "$documents/docs/glossary.md" "$work"
refused "a page that is missing"
mv "$work/glossary.md" "$documents/docs"
sed -i.old 's,(docs/tiers.md#sessions),(docs/tiers.md#session),' "$documents/CHANGELOG.md"
cmp -s "$documents/CHANGELOG.md" "$documents/CHANGELOG.md.old" && { echo "FAILED: no link to the heading of a page"; exit 1; }
refused "a heading that is not there"
mv "$documents/CHANGELOG.md.old" "$documents/CHANGELOG.md"
"$1" --install "$2" --prefix "$work/prefix" >"$work/log" # over what is there
"$here/installed_links.py" "$work/prefix" >/dev/null || { echo "FAILED: broken links after a second installation"; exit 1; }
echo "a missing page and a missing heading, both noticed"
