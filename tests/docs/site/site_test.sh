#!/bin/bash
# site_test.sh SOURCE OUT: builds the site, in a bounded time, and follows its links. Pages without a place in the navigation and
# links that lead nowhere are refused: each is tried, in a copy of the tree or of the site.
set -u
source=$1 out=$2 here=$(cd "$(dirname "$0")" && pwd)
. "$here/tree.sh"
"$source/scripts/site.sh" "$out"
code=$?
[ $code -eq 0 ] || exit $code
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
times >"$work/times"
seconds=$(tail -n 1 "$work/times" | sed -E 's/([0-9]+)m([0-9.]+)s/\1 \2/g' | awk '{ print 60 * ($1 + $3) + $2 + $4 }')
echo "built in $seconds s of one core"
# 13 s of a free core; busy machines and slow ones take longer.
awk -v s="$seconds" 'BEGIN { exit s > 60 }' || { echo "FAILED: the site may take 60 s of one core"; exit 1; }
"$here/site_links.py" "$out/html" || { echo "FAILED: the site has broken links (above)"; exit 1; }
for page in index.html api/step_h.html api/cpp-step_hpp.html commands/quire-plan.html docs/errors.html; do  # of each kind one
  [ "$(wc -c <"$out/html/$page")" -gt 10000 ] || { echo "FAILED: $page is short"; exit 1; }
done
grep -q 'href="../docs/errors.html#invalid_argument"' "$out/html/api/step_h.html" || { echo "FAILED: codes of calls lead nowhere"; exit 1; }
grep -q 'href="../api/step_h.html#[^"]*quire_reserve"' "$out/html/docs/in-your-engine.html" ||
  { echo "FAILED: guides do not link to calls"; exit 1; }

cp -r "$out/html" "$work/html"
for broken in 's,href="docs/errors.html",href="docs/error.html",' 's,href="#two-commands",href="#three-commands",'; do
  sed "$broken" "$out/html/index.html" >"$work/html/index.html"
  if "$here/site_links.py" "$work/html" >"$work/log"; then echo "FAILED: nobody noticed: $broken"; exit 1; fi
  grep -q '^BROKEN: index.html' "$work/log" || { cat "$work/log"; echo "FAILED: the message does not name the page"; exit 1; }
done

refused() { # refused FILE SED MESSAGE: with that change the pages are refused, and the message says why
  change "$source" "$work/tree" "$1" "$2"
  if PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$work/tree/docs/site/stage.py" "$work/pages" 2>"$work/log"; then
    echo "FAILED: nobody noticed: $2"
    exit 1
  fi
  grep -qF "$3" "$work/log" || { cat "$work/log"; echo "FAILED: the message does not say: $3"; exit 1; }
  cp "$source/$1" "$work/tree/$1"
}
tree "$source" "$work/tree"
cp --remove-destination "$source"/docs/site/*.py "$work/tree/docs/site"  # they look for the tree that they lie in
refused docs/site/conf.py 's,"docs/tiers.md"\, ,,' "docs/tiers.md is in NAVIGATION and INSIDE"
refused docs/site/conf.py 's,"docs/tiers.md",& "docs/tears.md",;s,md" "docs,md"\, "docs,' "docs/tears.md, which is not there"
refused docs/site/conf.py 's,"pin.h"\, ,,' "API of docs/site/conf.py"
refused docs/tiers.md 's,(connectors.md),(connector.md),' "docs/tiers.md links to connector.md"
echo "two broken links and four pages out of place, all refused"
