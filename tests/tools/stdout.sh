#!/bin/bash
# stdout.sh QUIRE MODEL TRACE: a command whose output cannot be written fails with a sentence, whatever the command: a full device, and a
# standard output that is closed.
set -u
quire=$1 model=$2 trace=$3
failed=0 checked=0
check() {  # check WHERE COMMAND...
  local where=$1 message code
  shift
  if [ "$where" = full ]; then
    message=$("$quire" "$@" 2>&1 >/dev/full)
  else
    message=$("$quire" "$@" 2>&1 >&-)
  fi
  code=$?
  checked=$((checked + 1))
  if [ $code -ne 1 ] || [[ $message != *"quire: cannot write to standard output: "* ]]; then
    echo "FAILED: $* on a $where output: code $code: $message"
    failed=1
  fi
}
for where in full closed; do
  check $where --help
  check $where --version
  check $where plan "$model" --memory 80GiB
  check $where plan "$model" --memory 80GiB --json
  check $where info --driver none
  check $where call --driver null echo.i32 -- 7
  check $where sweep "$model" --memory 40GiB,80GiB
  check $where compare "$model" --with '--policy vllm' --memory 80GiB
  check $where tier inspect "${model%/*}"
  check $where replay "$model" "$trace" --memory 80GiB
done
echo "$checked commands"
exit $failed
