#!/bin/bash
# completion.sh FOLDER: what bash completes, as a user presses tab.
set -u
source "$1/quire.bash"
failed=0
completes() {  # completes WORDS.. -- EXPECTED..: the last word is completed
  COMP_WORDS=()
  while [ "$1" != -- ]; do COMP_WORDS+=("$1"); shift; done
  shift
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
  _quire
  if [ "${COMPREPLY[*]}" != "$*" ]; then
    echo "FAILED: ${COMP_WORDS[*]}: '${COMPREPLY[*]}' instead of '$*'"
    failed=1
  fi
}
cd "$(mktemp -d)" || exit 1
trap 'rm -r "$PWD"' EXIT
touch config.json
completes quire pl -- plan
completes quire co -- compare
completes quire plan --poli -- --policy
completes quire plan --policy v -- vllm
completes quire plan --fit '' -- length memory none
completes quire plan con -- config.json
completes quire plan config.json --svg co -- config.json
completes quire plan config.json --memory '' --
completes quire sweep --ma -- --max-len
completes quire info --dr -- --driver
completes quire ti -- tier
completes quire tier in -- inspect
completes quire tier inspect --no -- --no-verify
completes quire tier inspect con -- config.json
completes quire frobnicate --x --
exit $failed
