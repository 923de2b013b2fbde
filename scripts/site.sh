#!/bin/sh
# Builds the documentation site from what is in the tree: guides, decisions, API, commands.   scripts/site.sh OUT
# The site is OUT/html; its first page is OUT/html/index.html. Everything else in OUT is what it was made from.
# Installs nothing (scripts/setup.sh --extras does). Exits with 77 where a tool is absent. The Python is that of the Debian packages.
set -eu
usage() { echo "site: usage: scripts/site.sh OUT" >&2; exit 2; }
[ $# -eq 1 ] || usage
case $1 in -* | "") usage ;; /*) out=$1 ;; *) out=$PWD/$1 ;; esac
cd "$(dirname "$0")/.."

python=/usr/bin/python3
lacks=""
for tool in doxygen mandoc; do command -v $tool >/dev/null || lacks="$lacks $tool"; done
for package in sphinx myst_parser breathe furo; do
  $python -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$package') is None)" 2>/dev/null || lacks="$lacks $package"
done
[ -z "$lacks" ] || { echo "skipped: no site is built, since these are not installed:$lacks (scripts/setup.sh --extras)"; exit 77; }
if [ -n "$(ls -A "$out" 2>/dev/null)" ] && [ ! -e "$out/.site" ]; then
  echo "site: $out is not empty, and no site was made there" >&2
  exit 2
fi
mkdir -p "$out"
: >"$out/.site"
out=$(cd "$out" && pwd)
rm -rf "$out/html" "$out/pages" "$out/xml" "$out/xml-cpp"

# What Doxygen warns of is an error, but for what a name says alone: as in tests/abi/reference.sh.
named='Member (.* \(variable\)|[^ ]+ \(macro definition\)|quire_[a-z_]+ \(typedef\)|quire_[a-z_]+_e \(enumeration\)) of .* is not documented'
xml() { # xml FOLDER SETTINGS: reads the headers into OUT/FOLDER
  mkdir -p "$out/$1"
  { cat docs/Doxyfile
    printf 'OUTPUT_DIRECTORY = "%s"\nGENERATE_HTML = NO\nGENERATE_XML = YES\nXML_OUTPUT = "%s"\nXML_PROGRAMLISTING = NO\n%s\n' \
      "$out" "$out/$1" "$2"; } | doxygen - >"$out/$1/log" 2>&1 || { cat "$out/$1/log" >&2; return 1; }
  ! grep -vE "$named" "$out/$1/log" >&2
}
xml xml "PREDEFINED += __STDC_VERSION__=199901L" || { echo "site: Doxygen warns of the C headers (above)" >&2; exit 1; }
xml xml-cpp "$(cat docs/site/Doxyfile.cpp)" || { echo "site: Doxygen warns of the C++ headers (above)" >&2; exit 1; }

PYTHONDONTWRITEBYTECODE=1 $python docs/site/stage.py "$out/pages"
PYTHONDONTWRITEBYTECODE=1 $python -m sphinx -q -W --keep-going -b html -c docs/site -d "$out/doctrees" -E \
  -D breathe_projects.c="$out/xml" -D breathe_projects.cpp="$out/xml-cpp" "$out/pages" "$out/html"
rm -rf "$out/doctrees"
echo "$(find "$out/html" -name '*.html' | wc -l) pages: $out/html/index.html"
