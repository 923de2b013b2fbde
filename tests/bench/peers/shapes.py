"""The shapes of quire_bench's attention rows."""

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
