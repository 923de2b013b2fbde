"""The shapes of quire_bench's attention rows, inputs for them, and what a right answer is.

Peers get contiguous keys and values in the order that each prefers; their figures do not include what pages would cost.
"""
import numpy

KV_HEADS = 8
WIDTH = 128
WORKING_SET = 512 << 20  # bytes of keys and values that calls take in turn: more than any cache holds


class Shape:
    """One row of quire_bench. `latent`: one head of keys whose first `width_v` elements are the values."""

    def __init__(self, row, dtype, tokens, group, queries=1, kv_heads=KV_HEADS, width=WIDTH, width_v=WIDTH, latent=False):
        self.row, self.dtype, self.tokens, self.group, self.queries = row, dtype, tokens, group, queries
        self.kv_heads, self.width, self.width_v, self.latent = kv_heads, width, width_v, latent

    @property
    def heads(self):
        return self.kv_heads * self.group

    @property
    def scale(self):
        return self.width**-0.5

    def kv_bytes(self):
        elements = self.tokens * self.kv_heads * (self.width + (0 if self.latent else self.width_v))
        return elements * (1 if self.dtype == "int8" else 2)

    def copies(self):
        """How many caches are taken in turn."""
        return max(1, min(64, -(-WORKING_SET // self.kv_bytes())))


def decode(dtype, group, row_dtype=None):
    return Shape(f"attention/decode/{row_dtype or dtype}/LPBJKHTD/page:16/G:{group}/ctx:32768", dtype, 32768, group)


SHAPES = {
    "decode-g1": decode("bf16", 1),
    "decode-g4": decode("bf16", 4),
    "decode-g8": decode("bf16", 8),
    "decode-g16": decode("bf16", 16),
    "decode-fp16-g4": decode("fp16", 4, "f16"),
    "decode-int8-g8": decode("int8", 8, "int8_rows"),
    "prefill": Shape("attention/prefill/bf16/LPBJKHTD/q:512/ctx:4096", "bf16", 4096, 4, queries=512),
    "mla": Shape("attention/mla_decode/bf16/LPBJTHD/page:64/G:128/ctx:8192", "bf16", 8192, 128, kv_heads=1, width=576,
                 width_v=512, latent=True),
    # For the test: a moment, on any machine. No row of quire_bench has it.
    "small": Shape("small", "bf16", 64, 2, queries=3, kv_heads=2, width=32, width_v=32),
}


def to_bf16(values):
    """fp32 -> the bits of bf16, to nearest even."""
    bits = values.view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def from_bf16(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32)


class Inputs:
    """q [heads, queries, width], k [kv_heads, tokens, width], v [kv_heads, tokens, width_v] as fp32 that `dtype` holds exactly (int8:
    a peer rounds them itself). Values of a latent shape are a part of k. Normal numbers, keys such that weights differ a lot."""

    def __init__(self, shape):
        random = numpy.random.default_rng(7)
        draw = lambda *extents: random.standard_normal(extents, dtype=numpy.float32)
        self.q = self.rounded(draw(shape.heads, shape.queries, shape.width), shape.dtype)
        self.k = self.rounded(draw(shape.kv_heads, shape.tokens, shape.width), shape.dtype)
        self.v = self.k[..., :shape.width_v]
        if not shape.latent:
            self.v = self.rounded(draw(shape.kv_heads, shape.tokens, shape.width_v), shape.dtype)

    @staticmethod
    def rounded(values, dtype):
        if dtype == "fp16":
            return values.astype(numpy.float16).astype(numpy.float32)
        return from_bf16(to_bf16(values))

    def mask(self, shape):
        """True where a query sees a key: the last query sees all."""
        keys = numpy.arange(shape.tokens)
        return keys[None, :] <= numpy.arange(shape.queries)[:, None] + (shape.tokens - shape.queries)


def difference(shape, inputs, out):
    """Relative L2 of `out` [heads, queries, width_v] to fp64, over the first and the last head, and of these the first and last query."""
    wrong = total = 0.0
    for head in (0, shape.heads - 1):
        k = inputs.k[head // shape.group].astype(numpy.float64)
        v = inputs.v[head // shape.group].astype(numpy.float64)
        for query in (0, shape.queries - 1):
            scores = k @ inputs.q[head, query].astype(numpy.float64) * shape.scale
            scores[shape.tokens - shape.queries + query + 1:] = -numpy.inf
            weights = numpy.exp(scores - scores.max())
            right = weights @ v / weights.sum()
            wrong += numpy.square(out[head, query] - right).sum()
            total += numpy.square(right).sum()
    return float(numpy.sqrt(wrong / total))
