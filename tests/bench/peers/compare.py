#!/usr/bin/env python3
"""compare.py QUIRE_BENCH [--threads N] [--turns N] [--seconds S] [--shapes a,b] [--peers a,b] [--python PYTHON] [--json FILE]

Attention of quire_bench beside that of PyTorch, ggml and oneDNN: the same shapes, threads and processors, in one run, taking turns. Every
peer first gives an answer that is compared with fp64. Each turn divides a peer's best call by quire's best call; the result is the median
over turns, above 1 where quire is faster. PYTHON is an interpreter with numpy and the peers' packages; the modules in this folder say what
each needs. A peer that cannot be run, or ends before the last turn, says why and has no figure. FILE is written after each shape.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

from shapes import SHAPES

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = ["pytorch/sdpa", "pytorch/sdpa-folded", "pytorch/flex", "ggml/products", "ggml/flash", "onednn/graph"]


def environment(peer):
    """For the process of one peer: what oneDNN from PyPI needs to find the libraries next to it."""
    made = dict(os.environ)
    if peer.startswith("onednn") and "DNNL_LIB" in made:
        folder = os.path.dirname(os.path.abspath(made["DNNL_LIB"]))
        made["LD_LIBRARY_PATH"] = ":".join(filter(None, [folder, made.get("LD_LIBRARY_PATH")]))
        processor = os.path.join(folder, "libintelocl.so")
        if os.path.exists(processor):
            made.setdefault("OCL_ICD_FILENAMES", processor)
    return made


class Peer:
    def __init__(self, name, shape, options):
        self.name = name
        self.ratios, self.best = [], []
        command = [options.python, os.path.join(HERE, "worker.py"), *name.split("/"), shape, str(options.threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(name))

    def start(self):
        """Whether it is ready; the answer is printed."""
        for line in self.process.stdout:  # a library may print something, too
            word, _, rest = line.strip().partition(" ")
            if word in ("ready", "no"):
                print(f"  {self.name}: {'' if word == 'ready' else 'not run, '}{rest}", flush=True)
                return word == "ready"
        print(f"  {self.name}: not run, ended with {self.process.wait()}", flush=True)
        return False

    def take(self, seconds):
        """Milliseconds of the best call; None, and a line that says so, if the process has ended."""
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        for line in self.process.stdout:
            words = line.split()
            if words[:1] == ["took"]:
                return float(words[1])
        print(f"  {self.name}: no figure, ended with {self.process.wait()}", flush=True)
        return None

    def stop(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()


def quire(options, row):
    """Milliseconds of the best call, and the share of the ceiling that quire_bench measured in the same moment."""
    command = [options.quire_bench, f"--benchmark_filter=^{row}/", "--benchmark_format=json"]
    processors = sorted(os.sched_getaffinity(0))[:options.threads]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, processors))
    found = json.loads(done.stdout)["benchmarks"]
    if len(found) != 1:
        raise SystemExit(f"{options.quire_bench} has {len(found)} rows {row}")
    if found[0].get("error_occurred"):
        raise SystemExit(f"{row}: {found[0]['error_message']}")
    tokens = int(row.rpartition("ctx:")[2]) if "ctx:" in row else found[0]["tokens"]
    return 1e3 * tokens / found[0]["tokens_per_s"], found[0]["of_ceiling"]


def measure(options, shape, row):
    print(f"{shape}: {row}", flush=True)
    peers = []
    for name in options.peers:  # one after the other: each fills memory with several threads
        peer = Peer(name, shape, options)
        if peer.start() and peer.take(options.seconds) is not None:  # the first calls are slower
            peers.append(peer)
        else:
            peer.stop()
    ours, shares = [], []
    for turn in range(options.turns):
        best, share = quire(options, row)
        ours.append(best)
        shares.append(share)
        for peer in [peers[(turn + i) % len(peers)] for i in range(len(peers))]:
            milliseconds = peer.take(options.seconds)
            if milliseconds is None:
                peer.stop()
                peers.remove(peer)
                continue
            peer.best.append(milliseconds)
            peer.ratios.append(milliseconds / best)
    result = {"shape": shape, "row": row, "quire_ms": statistics.median(ours), "quire_of_ceiling": statistics.median(shares), "peers": []}
    print(f"  quire: {result['quire_ms']:.2f} ms ({min(ours):.2f} to {max(ours):.2f}), {result['quire_of_ceiling']:.2f} of the ceiling")
    for peer in peers:
        peer.stop()
        ms, ratio = statistics.median(peer.best), statistics.median(peer.ratios)
        result["peers"].append({"peer": peer.name, "ms": ms, "ratio": ratio, "ratios": peer.ratios})
        print(f"  {peer.name}: {ms:.2f} ms, {ratio:.2f} times quire's time ({min(peer.ratios):.2f} to {max(peer.ratios):.2f})", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quire_bench")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each peer in each turn")
    parser.add_argument("--shapes", type=lambda text: text.split(","), default=[name for name in SHAPES if name != "small"])
    parser.add_argument("--peers", type=lambda text: text.split(","), default=PEERS)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", help="where the results are written")
    options = parser.parse_args()
    unknown = [shape for shape in options.shapes if shape not in SHAPES]
    if unknown:
        parser.error(f"no shape {unknown[0]}: {', '.join(SHAPES)}")
    results = []
    for shape in options.shapes:
        results.append(measure(options, shape, SHAPES[shape].row))
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=2)
    print(f"{options.threads} threads, {options.turns} turns, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
