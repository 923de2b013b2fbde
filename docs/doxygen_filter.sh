#!/bin/sh
# Comments of the public headers as Doxygen wants them: of the file, before a declaration, behind a field; signs that mean something to it
# are escaped. What is indented and in no list stays as it stands; Thread, Blocking and Errors are in bold, and Thread and Errors begin a
# paragraph.
sed -e '/^#/!s/[<>@%\\#]/\\&/g' -e 's,^/\* ,/** ,' \
  -e 's,^  /\* ,  /** ,' -e 's,\([;\,]\)\( *\)/\* ,\1\2/**< ,' -e 's,^\(#define .*\)/\* ,\1/**< ,' \
  -e '1s,^/\*\* quire,/** @file\n * quire,' "$1" | awk '
  function leave() { if (kept) print "@endverbatim"; kept = 0 }
  /^ *\* - / { list = 1 }
  /^ *\* ?[^ \/-]/ || /^ *\*$/ { if (list) print " *"; list = 0 }
  !list && /^ *\*   / {
    if (!kept) print " *\n@verbatim"
    kept = 1
    gsub(/\\/, "")
    last = sub(/ \*\/$/, "")
    sub(/^ *\*   /, "")
    print
    if (last) { leave(); print " */" }
    next
  }
  { leave() }
  /^ \* (Thread|Errors): / { print " *" }
  /^ \* / || /^\/\*\* / { gsub(/(Thread|Blocking|Errors):/, "**&**") }
  { print }
  /\*\/$/ { list = 0 }'
