#!/bin/sh
# Runs a compiler and keeps what it says in a file; shows it where the compiler fails.
#   compile.sh LOG COMMAND...
log=$1
shift
"$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
