"""A decode step of 256 sequences (reserve, all five arrays, commit) through this package and by a C
program, in one process over one cache: block by block in turn, so that both see every position of a
block and the same lengths. Prints microseconds and their ratio.

    python3 bindings/python/bench/decode_step.py [BLOCKS]       # needs a C compiler (CC, default
    cc) and the headers of the checkout
"""
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import quire
from quire._core import ffi

ROWS, BLOCK = 256, 16
C_PROGRAM = """
#include <quire/quire.h>

/* `steps` steps of n sequences that decode: reserve, five arrays, commit. Returns 0, or the line that failed. */
int decode_steps(quire_cache* cache, const quire_reserve_entry* wants, quire_reserve_result* got, quire_commit_entry* rows,
                 const quire_symbol* symbols, uint64_t n, void* memory, uint64_t size, int steps) {
  quire_error err = {.struct_size = sizeof err};
  for (int i = 0; i < steps; ++i) {
    quire_step step;
    quire_batch batch = {.struct_size = sizeof batch};
    quire_batch_options options = {.struct_size = sizeof options, .memory = memory, .bytes = size};
    uint64_t bytes = 0;
    if (quire_reserve(cache, wants, n, 0, 0, got, &step, &err) != QUIRE_OK || step.id == 0) return __LINE__;
    if (quire_step_get_batch(step, &options, &batch, sizeof batch, 1, &bytes, &err) != QUIRE_OK) return __LINE__;
    for (uint64_t row = 0; row < n; ++row) rows[row].symbols_position = got[row].position + got[row].num_tokens;
    if (quire_commit(step, rows, n, symbols, n, &err) != QUIRE_OK) return __LINE__;
  }
  return 0;
}
"""
HERE = pathlib.Path(__file__).resolve().parent


def compiled(folder: str) -> "ctypes.CDLL":
    """The C program over the library that this process has loaded."""
    made = f"{folder}/decode_step.so"
    headers = HERE.parents[2] / "abi" / "include"
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", f"-I{headers}", "-xc", "-", "-xnone",
               os.path.abspath(quire.library_path), "-o", made]
    subprocess.run(command, check=True, input=C_PROGRAM, text=True)
    library = ctypes.CDLL(made)
    library.decode_steps.argtypes = [ctypes.c_void_p] * 5 + [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int]
    return library


def main(blocks: int) -> float:
    layer = quire.Layer(quire.LayerKind.FULL, num_kv_heads=1, num_q_heads=1, head_dim_k=64, head_dim_v=64, dtype="bf16")
    model = quire.Model([layer], max_model_len=(blocks + 2) * BLOCK)
    cache = quire.Cache(quire.Config(model, num_pages=ROWS * (blocks + 2) + 2), max_sequences=ROWS)
    batch = quire.Batch(cache.config)
    symbols = np.arange(ROWS, dtype=np.uint32)
    want = quire.entries(ROWS)
    want["sequence"] = [cache.create_sequence() for _ in range(ROWS)]
    want["num_tokens"] = want["num_symbols"] = 1
    want["symbols_offset"] = symbols
    with cache.reserve(want, symbols) as step:
        step.check().commit(symbols)
    want["num_symbols"] = want["symbols_offset"] = 0

    def by_python() -> None:
        with cache.reserve(want) as step:
            group = batch.fill(step)[0]
            arrays = group.query_indptr, group.kv_len, group.positions, group.table, group.slots
            assert len(arrays) == 5
            step.commit(symbols)

    got, rows = np.zeros(ROWS, step.results.dtype), quire.outcomes(ROWS)
    rows["sequence"], rows["symbols_offset"], rows["num_symbols"], rows["num_accepted"] = want["sequence"], symbols, 1, 1
    memory = np.zeros(ROWS * (blocks + 16) * 16 + 16, np.uint8)
    start = -memory.ctypes.data % 16
    times: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(folder)
        handle = int(ffi.cast("uintptr_t", cache._pointer))
        pointers = [array.ctypes.data for array in (want, got, rows, symbols)]
        for block in range(blocks):
            python = block % 4 in (1, 2)  # C P P C: lengths grow, and both see the same on average
            begin = time.perf_counter()
            if python:
                for _ in range(BLOCK):
                    by_python()
            else:
                failed = library.decode_steps(handle, *pointers, ROWS, memory.ctypes.data + start, memory.size - 16, BLOCK)
                if failed:
                    raise RuntimeError(f"line {failed} of the C program failed")
            times[python].append((time.perf_counter() - begin) * 1e6 / BLOCK)
    cache.verify()
    ratio = statistics.median(p / c for p, c in zip(times[True], times[False]))
    print(f"decode step of {ROWS} sequences: C {statistics.median(times[False]):.1f} us, Python {statistics.median(times[True]):.1f} us, "
          f"ratio {ratio:.2f}")
    return ratio


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 120)
