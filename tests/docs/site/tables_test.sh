#!/bin/bash
# tables_test.sh SOURCE: docs/errors.md and docs/environment.md have the rows that they must have, and no others; a row that is missing,
# twice there or stale is noticed, and so is a variable that code begins to read.
set -u
source=$1 here=$(cd "$(dirname "$0")" && pwd)
. "$here/tree.sh"
"$here/table_rows.py" "$source" || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
refused() { # refused FILE SED MESSAGE
  change "$source" "$work/tree" "$1" "$2"
  if "$here/table_rows.py" "$work/tree" >"$work/log"; then echo "FAILED: nobody noticed: $2"; exit 1; fi
  grep -qF "$3" "$work/log" || { cat "$work/log"; echo "FAILED: the message does not say: $3"; exit 1; }
  cp "$source/$1" "$work/tree/$1"
}
tree "$source" "$work/tree"
refused docs/errors.md '/^| `QUIRE_ABORTED`/d' "docs/errors.md has no row QUIRE_ABORTED"
refused docs/errors.md 's/^| `QUIRE_ABORTED` (10)/| `QUIRE_ABORTED` (11)/' "no row begins with QUIRE_ABORTED (10)"
refused docs/errors.md 's/^| `QUIRE_ABORTED`.*/&\n&/' "docs/errors.md has 2 rows QUIRE_ABORTED"
refused docs/environment.md '/^| `QUIRE_LOG`/d' "docs/environment.md has no row QUIRE_LOG"
refused docs/environment.md 's/^| `QUIRE_LOG`/| `QUIRE_LOGS`/' "docs/environment.md has the row QUIRE_LOGS"
refused docs/environment.md '/^| `QUIRE_UNITY`/d' "docs/environment.md has no row QUIRE_UNITY"
refused core/modules/environment.cc 's/"QUIRE_LOG"/"QUIRE_LOUD"/' "docs/environment.md has no row QUIRE_LOUD"
refused scripts/test.sh 's/QUIRE_TIDY_FROM:/QUIRE_TIDY_SINCE:/' "docs/environment.md has no row QUIRE_TIDY_SINCE"
echo "eight seeded faults, all noticed"
