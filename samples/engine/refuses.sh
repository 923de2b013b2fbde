#!/bin/bash
# refuses.sh CODE TEXT COMMAND...: the command must end with CODE, say TEXT on standard error and nothing on standard output.
want=$1 text=$2
shift 2
said=$("$@" 2>&1 >/dev/null </dev/null)
code=$?
printed=$("$@" 2>/dev/null </dev/null)
[ "$code" = "$want" ] && [ -z "$printed" ] && grep -qF -- "$text" <<<"$said" && exit 0
echo "expected exit code $want and '$text', got $code and:"
echo "$said"
echo "on standard output: '$printed'"
exit 1
