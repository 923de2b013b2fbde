#!/bin/sh
# Comments of the public headers as Doxygen wants them: of the file, before a declaration, behind a field; signs that mean something to it
# are escaped.
sed -e '/^#/!s/[<>@%\\#]/\\&/g' -e 's,^/\* ,/** ,' \
  -e 's,^  /\* ,  /** ,' -e 's,\([;\,]\)\( *\)/\* ,\1\2/**< ,' -e 's,^\(#define .*\)/\* ,\1/**< ,' \
  -e '1s,^/\*\* quire,/** @file\n * quire,' "$1"
