#!/usr/bin/env python3
"""The shapes of quire_gpu_bench by others, on the same machine and timed in the same way: torch's scaled dot product attention (flash, cuDNN)
and flex attention, which Triton compiles. JSON on stdout; what cannot be run says why, and so does the whole where torch or a GPU is missing.
    peers.py [--small]
Caches are contiguous, [rows, heads, tokens, width]: what a peer would pay for pages is not in its figure."""
import json
import statistics
import sys
import time

SMALL = "--small" in sys.argv[1:]
SCALE = 128 if SMALL else 1
ROUNDS = 3 if SMALL else 21
WORKING_SET = (1 << 20) if SMALL else (1 << 30)
KV_HEADS, DIM = 8, 128
BYTES = 2  # of bf16


def shapes():
    """name, rows, tokens, group, queries: as in gpu_bench.cc; rows of different length have no peer here."""
    for group in (4, 8):
        for rows, tokens, text in ((8, 32768, "8x32k"), (64, 8192, "64x8k"), (1, 32768, "1x32k")):
            yield f"attention/decode/bf16/HND/page:16/G:{group}/ctx:{text}", rows, tokens // SCALE, group, 1
    yield "attention/decode/bf16/HND/page:16/G:8/ctx:1x1k", 1, 1024 // SCALE, 8, 1
    yield "attention/prefill/bf16/HND/q:8192/ctx:8192", 1, 8192 // SCALE, 4, 8192 // SCALE


def measure(torch, call):
    """Rounds of about 20 ms, from an idle device to an idle device: best and median seconds of a call."""

    def timed(calls):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / calls

    timed(2)
    calls = min(2000, max(1, int(0.02 / timed(2))))
    times = sorted(timed(calls) for _ in range(ROUNDS))
    return times[0], statistics.median(times)


def row(peer, name, seconds, moved, operations, copy_rate):
    best, median = seconds
    told = {"peer": peer, "name": name, "best_us": best * 1e6, "median_us": median * 1e6}
    if operations:
        told["TFLOPs"] = operations / median / 1e12
    else:
        told["GBps"] = moved / median / 1e9
        told["of_copy"] = told["GBps"] / copy_rate if copy_rate else None
    return told


def layers(torch, rows, tokens, group, queries):
    """Q, K and V of as many layers as make a working set that no cache holds."""
    each = 2 * rows * KV_HEADS * tokens * DIM * BYTES
    count = min(64, WORKING_SET // each + 1)
    make = lambda heads, n: torch.randn(rows, heads, n, DIM, dtype=torch.bfloat16, device="cuda")
    return [(make(KV_HEADS * group, queries), make(KV_HEADS, tokens), make(KV_HEADS, tokens)) for _ in range(count)], each


def in_turn(inputs, attend):
    turn = [0]

    def call():
        q, k, v = inputs[turn[0] % len(inputs)]
        turn[0] += 1
        return attend(q, k, v)

    return call


def peers(torch):
    """name of a peer -> makes its call for one shape."""
    functional = torch.nn.functional

    def sdpa(backend):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def attend(q, k, v):
            with sdpa_kernel([getattr(SDPBackend, backend)]):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1, enable_gqa=True)

        return attend

    def flex(tokens):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        compiled = torch.compile(flex_attention)
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, tokens, tokens, device="cuda")
        return lambda q, k, v: compiled(q, k, v, block_mask=mask if q.shape[2] > 1 else None, enable_gqa=True)

    return {
        "torch sdpa flash": lambda tokens: sdpa("FLASH_ATTENTION"),
        "torch sdpa cudnn": lambda tokens: sdpa("CUDNN_ATTENTION"),
        "torch flex attention (Triton)": flex,
    }


def attention_rows(torch, copy_rate):
    for name, rows, tokens, group, queries in shapes():
        inputs, moved = layers(torch, rows, tokens, group, queries)
        seen = queries * tokens - queries * (queries - 1) // 2
        operations = 4 * DIM * KV_HEADS * group * rows * seen if queries > 1 else 0
        for peer, make in peers(torch).items():
            try:
                yield row(peer, name, measure(torch, in_turn(inputs, make(tokens))), moved, operations, copy_rate)
            except Exception as problem:  # a peer that a version of torch lacks is no failure of ours
                yield {"peer": peer, "name": name, "unavailable": f"{type(problem).__name__}: {problem}"[:300]}
        del inputs


def copy_rate_of(torch):
    source = torch.empty(WORKING_SET, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    best, _ = measure(torch, lambda: target.copy_(source))
    return 2 * WORKING_SET / best / 1e9


def run():
    try:
        import torch
    except ImportError as problem:
        return {"unavailable": f"torch cannot be imported: {problem}"}
    if not torch.cuda.is_available():
        return {"unavailable": "torch has no GPU here"}
    copy_rate = copy_rate_of(torch)
    return {
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(0),
        "small": SMALL,
        "copy_GBps": copy_rate,
        "rows": list(attention_rows(torch, copy_rate)),
    }


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    print()
