#!/usr/bin/env python3
"""decode_speed.py LM_DECODE FOLDER DEPTH THREADS [fill] [--peer "NAME OPTION..."]... [--python PYTHON] [--turns N] [--tokens N]

How fast samples/lm generates at a depth, and other engines on the same checkpoint, in one run. All are loaded, then they take turns:
each generates some tokens in every turn, and only one runs at a time. Prints the median time of a token for each, and the median over
turns of its time relative to that of this engine: above 1 this engine is faster. Peers: see decode_peer.py, which also makes a checkpoint.
LM_DECODE is build/release/tests/lm_decode. PYTHON is an interpreter that has the packages of the peers.
"""
import argparse
import os
import statistics
import subprocess
import sys


class Engine:
    def __init__(self, name, command):
        self.name = name
        self.seconds = []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline().split(maxsplit=1)
        if ready[:1] != ["ready"]:
            raise SystemExit(f"{name} did not start: {' '.join(command)}")
        print(f"{name}: {ready[1].strip()}", flush=True)

    def take(self, tokens):
        self.process.stdin.write(f"{tokens}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline()) / tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lm_decode")
    parser.add_argument("folder")
    parser.add_argument("depth", type=int)
    parser.add_argument("threads", type=int)
    parser.add_argument("fill", nargs="?", choices=["fill"])
    parser.add_argument("--peer", action="append", default=[])
    parser.add_argument("--ours", action="append", default=[], help="options of lm_decode, or another lm_decode and its options; each is one more engine")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=8)
    o = parser.parse_args()
    peer = os.path.join(os.path.dirname(os.path.abspath(__file__)), "decode_peer.py")
    common = [o.folder, str(o.depth), str(o.threads)] + ([o.fill] if o.fill else [])
    engines = []
    for text in o.peer:
        name, *options = text.split()
        engines.append(Engine(text, [o.python, peer, name, *common, *options]))
    for options in o.ours or [""]:
        program, *rest = options.split() if options.startswith("/") else [o.lm_decode, *options.split()]
        engines.append(Engine(f"samples/lm {options}".strip(), [program, *common, *rest]))
    for engine in engines:  # the first tokens are slower
        engine.take(o.tokens)
    for turn in range(o.turns):
        for i in range(len(engines)):
            engine = engines[(turn + i) % len(engines)]
            engine.seconds.append(engine.take(o.tokens))
    ours = engines[-1]
    print(f"{o.folder}, depth {o.depth}{', not computed' if o.fill else ''}, {o.threads} threads, "
          f"{o.turns} turns of {o.tokens} tokens, load average {os.getloadavg()[0]:.1f}")
    for engine in engines:
        ratios = [theirs / own for theirs, own in zip(engine.seconds, ours.seconds)]
        print(f"{engine.name:40s} {1e3 * statistics.median(engine.seconds):8.2f} ms a token, least {1e3 * min(engine.seconds):8.2f}, "
              f"{statistics.median(ratios):6.2f} of the time of {ours.name}", flush=True)
    for engine in engines:
        engine.process.stdin.close()
        engine.process.wait()


if __name__ == "__main__":
    main()
