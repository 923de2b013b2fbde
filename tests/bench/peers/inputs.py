"""Inputs for a shape, and what a right answer is. Peers get contiguous keys and values in the order that each prefers; their figures do not
include what pages would cost."""
import numpy


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
