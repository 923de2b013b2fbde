#!/bin/bash
# abidiff.sh SOURCE WRITER: libabigail compares the frozen headers (the committed baseline) with today's: functions may be added and structs may
# grow at their end, nothing else may change. Then seeded breaks, every one of which must be caught.
set -u
source=$1 writer=$2
command -v abidiff >/dev/null || { echo "skipped: abidiff (abigail-tools) is not installed, so the binary comparison is left out"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# witness INCLUDE OUTPUT: a library with every function of the headers, and one that takes every struct.
witness() {
  "$writer" --witness "$1" "$work/witness.c" && gcc -w -std=c11 -g -fPIC -shared -I"$1" "$work/witness.c" -o "$2"
}

# broken OLD NEW: says what of the report is no addition; true when there is such a thing.
broken() {
  abidiff --no-show-locs "$1" "$2" >"$work/report" 2>&1
  # Insertions at or behind the old end are growth; everything else that is reported is a break.
  awk '
    # On the way down to what changed; that is reported below these lines.
    /has sub-type changes|in unqualified underlying type|underlying type .struct [a-z_0-9]*. changed:/ { next }
    /type size changed from/ { for (i = 1; i <= NF; i++) if ($i == "from") old = $(i + 1) }
    # A pointer to functions is followed by what changed in their type; other changes of members stand alone.
    held != "" { if ($0 !~ /in pointed to type .function type/) bad = bad "\n" held; held = "" }
    /[0-9]+ data member changes?( \([0-9]+ filtered\))?:$/ { next } # heading
    /type of .* changed:$/ { held = $0; next }
    /parameter [0-9]+ of type .* has sub-type changes:|underlying type .struct [a-z_0-9]*. changed:|in unqualified underlying type/ { next } # headings
    /data member insertion/ { insertion = 1; next }
    insertion && /at offset/ { for (i = 1; i <= NF; i++) if ($i == "offset" && $(i + 1) + 0 < old + 0) bad = bad "\n" $0; next }
    /offset changed|size changed from .* \(in bits\) \(by -|data member (deletion|change)|member functions? (deletion|change)|type of |parameter [0-9]+ of|parameter .* (added|removed)|return type changed|enumerator (deletion|change)|underlying type/ { bad = bad "\n" $0 }
    /Removed functions? from|Functions changes summary: [1-9][0-9]* Removed/ { bad = bad "\n" $0 }
    END { if (bad != "") { print substr(bad, 2); exit 0 } exit 1 }' "$work/report"
}

witness "$source/tests/abi/frozen/include" "$work/old.so" || exit 1
witness "$source/abi/include" "$work/new.so" || exit 1
if broken "$work/old.so" "$work/new.so"; then
  echo "FAILED: today's headers break the frozen ones (above). Meant so, before 1.0? Run tests/abi/freeze.sh and say it in the changelog."
  exit 1
fi
echo "today's headers against the frozen ones: additions only"

caught=0
# breaks NAME FILE SED: this change of the frozen headers must be caught.
breaks() {
  rm -rf "$work/seeded"
  cp -r "$source/tests/abi/frozen/include" "$work/seeded"
  sed -i -E "$3" "$work/seeded/quire/$2"
  cmp -s "$work/seeded/quire/$2" "$source/tests/abi/frozen/include/quire/$2" && { echo "FAILED: the seeded break '$1' changed nothing"; exit 1; }
  witness "$work/seeded" "$work/seeded.so" || exit 1
  if ! broken "$work/old.so" "$work/seeded.so" >"$work/log"; then
    echo "FAILED: not caught: $1"
    cat "$work/report"
    exit 1
  fi
  caught=$((caught + 1))
}
breaks "a field narrowed" config.h 's|  uint64_t num_pages; +/\* the null page included \*/|  uint32_t num_pages, num_pages_high;|'
breaks "a field inserted" model.h '0,/^  uint32_t num_caches;/s//  uint64_t inserted;\n&/'
breaks "a field removed" cache.h '0,/^  uint64_t max_media;.*/s///'
breaks "a function removed" base.h '/^QUIRE_API quire_str quire_version/d'
breaks "a parameter widened" memory.h 's/uint32_t ordinal, quire_device/uint64_t ordinal, quire_device/'
breaks "a return type changed" base.h 's/^QUIRE_API uint32_t quire_abi_version/QUIRE_API uint64_t quire_abi_version/'
breaks "a table entry's parameter changed" driver.h 's|instance, uint32_t ordinal,|instance, uint64_t ordinal,|'
echo "$caught seeded breaks, all caught"
