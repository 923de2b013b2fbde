#!/usr/bin/env python3
"""compare.py over numpy as the peer and a quire_bench that only prints: ratios are of the same turn, a peer with a wrong answer and one
that is missing have no figure and say why, and so does a row that quire_bench lacks. Skipped where no python3 has numpy."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Every call says another time: 1 us, 2 us, ...
BENCH = '''#!/usr/bin/env python3
import json, os, sys
assert sys.argv[1] == "--benchmark_filter=^small/", sys.argv
assert len(os.sched_getaffinity(0)) == 1
calls = os.path.join(os.path.dirname(__file__), "calls")
open(calls, "a").write("x")
n = os.path.getsize(calls)
row = {"tokens": 64, "tokens_per_s": 64 / (1e-6 * n), "of_ceiling": 0.1 * n}
print(json.dumps({"benchmarks": [row] * int(os.environ.get("ROWS", "1"))}))
'''


def run(bench, python, *options, **environment):
    command = [sys.executable, os.path.join(HERE, "compare.py"), bench, "--python", python, "--threads", "1", "--turns", "3", "--seconds", "0.01",
               *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=50, env={**os.environ, **environment})
    return done.returncode, done.stdout


def with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    print("skipped: python3-numpy is not installed")
    sys.exit(77)


def main():
    python = with_numpy()
    with tempfile.TemporaryDirectory() as folder:
        bench, report = os.path.join(folder, "bench"), os.path.join(folder, "report.json")
        with open(bench, "w", encoding="utf-8") as file:
            file.write(BENCH)
        os.chmod(bench, 0o755)
        code, text = run(bench, python, "--shapes", "small", "--peers", "numpy/plain,numpy/wrong,numpy/dies,nowhere/x", "--json", report)
        assert code == 0, text
        with open(report, encoding="utf-8") as file:
            [result] = json.load(file)
        assert result["shape"] == "small"
        assert abs(result["quire_ms"] - 0.002) < 1e-9 and abs(result["quire_of_ceiling"] - 0.2) < 1e-9, result
        [peer] = result["peers"]
        assert peer["peer"] == "numpy/plain" and len(peer["ratios"]) == 3, result
        # Of what this bench takes in each turn: 1, 2 and 3 us.
        times = sorted(ratio * us / 1e3 for us, ratio in enumerate(peer["ratios"], 1))
        assert abs(times[1] - peer["ms"]) < 1e-9 and peer["ratio"] == sorted(peer["ratios"])[1], peer
        assert "numpy/wrong: not run, ArithmeticError: " in text, text
        assert "numpy/dies: no figure, ended with 3" in text, text
        assert "nowhere/x: not run, ModuleNotFoundError: " in text, text

        code, text = run(bench, python, "--shapes", "small", "--peers", "numpy/plain", ROWS="0")
        assert code != 0 and "has 0 rows small" in text, text
        code, text = run(bench, python, "--shapes", "other")
        assert code != 0 and "no shape other" in text, text


if __name__ == "__main__":
    main()
