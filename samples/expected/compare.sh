#!/bin/bash
# compare.sh PROGRAM STORY DRIVER: runs a story with QUIRE_DRIVER=DRIVER and compares output and exit status with what lies beside this file:
#   STORY.DRIVER.txt, where there is one: the story ends in an error of that driver, its last line, and with status 1
#   refused.txt where DRIVER is no name at all, such as "?": every program says so before anything else, and ends with status 1
#   STORY.txt otherwise: the whole story, status 0
set -u
program=$1 story=$2 driver=$3
expected=$(dirname "$0")/$story.$driver.txt
status=1
[ "$driver" != "?" ] || expected=$(dirname "$0")/refused.txt
[ -f "$expected" ] || { expected=$(dirname "$0")/$story.txt; status=0; }
printed=$(QUIRE_DRIVER=$driver "$program" 2>&1)
ended=$?
diff <(printf '%s\n' "$printed") "$expected" || { echo "FAILED: $program with QUIRE_DRIVER=$driver does not print $expected"; exit 1; }
[ $ended -eq $status ] || { echo "FAILED: $program with QUIRE_DRIVER=$driver ended with $ended, wanted $status"; exit 1; }
