#!/usr/bin/env python3
"""worker.py PEER HOW SHAPE THREADS: one peer on one shape. Says "ready VERSION" once its first answer is right, or "no REASON". Then a
line with a number asks for calls for about that many seconds in all; "took" is answered, with the milliseconds of the best one and of
the median. HOW "dies" (numpy only, for the tests) ends at the third line."""
import importlib
import os
import statistics
import sys
import time

import numpy

import inputs as data
from shapes import SHAPES

BOUND = 3e-2  # relative L2 to fp64: a peer that computes something else is far beyond it, one that sums in fp16 is not


def timed(attend, copies, seconds):
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        attend((len(times) + timed.first) % copies)
        times.append(time.perf_counter() - start)
    timed.first += len(times)
    return 1e3 * min(times), 1e3 * statistics.median(times)


timed.first = 1


def plain(shape, inputs, threads, how):
    """numpy, in fp32: for the tests. `wrong`: an answer for another question."""

    def attend(_):
        scores = numpy.einsum("hqd,htd->hqt", inputs.q, inputs.k.repeat(shape.group, 0)) * shape.scale
        scores = numpy.where(inputs.mask(shape), scores, -numpy.inf)
        weights = numpy.exp(scores - scores.max(-1, keepdims=True))
        return numpy.einsum("hqt,htd->hqd", weights / weights.sum(-1, keepdims=True), inputs.v.repeat(shape.group, 0))

    out = attend(0)
    return f"numpy {numpy.__version__}", out[:, ::-1] if how == "wrong" else out, attend


def main():
    peer, how, name, threads = sys.argv[1:]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:int(threads)])
    shape = SHAPES[name]
    try:
        inputs = data.Inputs(shape)
        make = plain if peer == "numpy" else importlib.import_module(peer).make
        version, out, attend = make(shape, inputs, int(threads), how)
        off = data.difference(shape, inputs, out)
        del inputs
        if not off <= BOUND:
            raise ArithmeticError(f"{off:.2e} from the right answer, {BOUND:.1e} is allowed")
    except Exception as problem:  # a peer that is missing, or lacks the shape, is no failure of ours
        print("no", " ".join(f"{type(problem).__name__}: {problem}".split())[:200], flush=True)
        return
    print("ready", version, f"({off:.1e} from fp64)", flush=True)
    for turn, line in enumerate(sys.stdin):
        if how == "dies" and turn == 2:
            sys.exit(3)
        print("took", *timed(attend, shape.copies(), float(line)), flush=True)


if __name__ == "__main__":
    main()
