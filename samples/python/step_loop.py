"""The step loop: reserve, batch, append, attention on the driver that QUIRE_DRIVER names, commit. A
plain loop checks every number.
"""
import sys

import numpy as np

import quire
from plain import DIM, HEADS, KEY, KV_HEADS, QUERY, VALUE, element, plain

SEQUENCES, STEPS, MAX_LENGTH = 2, 6, 64


class Engine:
    """A model of one layer."""

    def __init__(self) -> None:
        layer = quire.Layer(quire.LayerKind.FULL, num_q_heads=HEADS, num_kv_heads=KV_HEADS, head_dim_k=DIM, head_dim_v=DIM, dtype="fp32")
        runtime = quire.Runtime()
        model = quire.Model([layer], max_model_len=MAX_LENGTH)
        config = quire.Config(model, num_pages=9)
        device = quire.Device(runtime)
        self.cache = quire.Cache(config, runtime=runtime)
        self.stream = quire.Stream(device)
        self.memory = quire.Memory(device, config)
        self.batch = quire.Batch(config)
        self.layer_kv = self.memory.paged_kv(0)  # where layer 0 keeps its keys and values
        self.layer = model.layers()[0]

    def forward(self, step: quire.Step) -> tuple[quire.GroupBatch, np.ndarray]:
        group = self.batch.fill(step)[0]
        self.memory.prepare(step, self.stream)
        query, key, value = inputs(group)
        out = np.zeros_like(query)
        self.stream.kv_append(self.layer_kv, group, key, value)
        self.stream.attention(self.layer_kv, group, query, out, layer=self.layer)
        self.stream.synchronize()
        return group, out


def tokens_of(group: quire.GroupBatch) -> list[tuple[int, int]]:
    """(sequence, position) of each token of the step."""
    ends = group.query_indptr
    return [(s, int(position)) for s in range(SEQUENCES) for position in group.positions[ends[s]:ends[s + 1]]]


def inputs(group: quire.GroupBatch) -> list[np.ndarray]:
    """What the weights of a model would compute."""
    return [np.array([[element(which, s, position, x) for x in range(heads * DIM)] for s, position in tokens_of(group)],
                     np.float32).reshape(-1, heads, DIM) for which, heads in ((QUERY, HEADS), (KEY, KV_HEADS), (VALUE, KV_HEADS))]


def report(group: quire.GroupBatch, out: np.ndarray) -> None:
    expected = np.array([[plain(s, position, x) for x in range(HEADS * DIM)] for s, position in tokens_of(group)])
    computed = out.reshape(-1, HEADS * DIM).astype(float)
    verdict = "equal to plain attention" if np.abs(computed - expected).max() < 1e-5 else "WRONG"
    lengths = " ".join(map(str, group.kv_len))
    print(f"{group.num_tokens} tokens, lengths {lengths}, checksum {np.abs(computed).sum():.2f}, {verdict}")


def main() -> None:
    engine = Engine()
    symbols = np.arange(1000, 1032, dtype=np.uint32)
    want = quire.entries(SEQUENCES)
    want["sequence"] = [engine.cache.create_sequence() for _ in range(SEQUENCES)]
    want["symbols_offset"] = [0, 20]
    want["num_symbols"] = want["num_tokens"] = [20, 7]
    for _ in range(STEPS):
        with engine.cache.reserve(want, symbols) as step:
            step.check()
            report(*engine.forward(step))
            step.commit(symbols[:SEQUENCES])  # here an engine samples
        want["num_symbols"] = 0  # the commit gave them
        want["num_tokens"] = 1


if __name__ == "__main__":
    try:
        main()
    except quire.Error as error:
        sys.exit(print(error) or 1)
