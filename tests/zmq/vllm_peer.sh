#!/bin/bash
# vllm_peer.sh SPEAKER: runs vllm_peer.py with the Python that QUIRE_PYTHON names (one that has msgspec and pyzmq), else with the first one.
# By hand, once:
#   python3 -m venv peer && peer/bin/pip install msgspec pyzmq && peer/bin/pip download --no-deps -d peer vllm
#   QUIRE_PYTHON=peer/bin/python QUIRE_VLLM=$(ls peer/vllm-*.whl) tests/zmq/vllm_peer.sh build/release/tests/zmq_speaker
set -u
python=${QUIRE_PYTHON:-$(command -v python3)}
[ -x "$python" ] || { echo "skipped: no python3 is installed, so vLLM's classes are not tried"; exit 77; }
exec "$python" "$(dirname "$0")/vllm_peer.py" "$1"
