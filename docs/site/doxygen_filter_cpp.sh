#!/bin/sh
# Comments of the C++ headers as Doxygen wants them: of the file, before what stands in a namespace or a class; not those inside functions.
# The inline namespace that separates ways of compiling is no part of a name; constructors of a base are described there.
awk '
  /namespace QUIRE_CPP_MODE|^  using Handle.*::(Handle|get);$/ { print ""; next }
  NR == 1 { sub(/^\/\/ /, "/// @file\n/// ") }
  /^(template.*)?(class|struct) .*\{$/ { inside = 1 }
  /^};/ { inside = 0 }
  /^\/\/ / || (inside && /^  \/\/ /) { gsub(/[<>@%\\#&]/, "\\\\&"); sub(/\/\/ /, "/// ") }
  { print }' "$1" | sed 's,^/// \\@file,/// @file,'
