#!/bin/bash
# dlpack.sh RIG MODULES: runs dlpack_consumers.py with the distribution's Python, which has the distribution's NumPy.
set -u
python=/usr/bin/python3
[ -x $python ] || { echo "skipped: /usr/bin/python3 is not installed, so no consumer of DLPack is tried"; exit 77; }
exec $python "$(dirname "$0")/dlpack_consumers.py" "$1" "$2"
