"""What the tests share: small plans, engines without a model, and checks of errors."""
import contextlib
import os
import unittest
from typing import Any, Iterator, Optional

import numpy as np

import quire

FULL = os.environ.get("QUIRE_FULL") == "1"
LAYER = quire.Layer(quire.LayerKind.FULL, num_kv_heads=2, num_q_heads=4, head_dim_k=8, head_dim_v=8, dtype="fp32")
HYBRID = [
    quire.Layer(quire.LayerKind.FULL, num_kv_heads=2, num_q_heads=4, head_dim_k=8, head_dim_v=8, dtype="bf16"),
    quire.Layer(quire.LayerKind.STATE, layer=1, state=(quire.StateTensor("fp32", (4, 8, 8)),)),
]


def config(layers: Any = (LAYER,), pages: int = 65, **options: Any) -> quire.Config:
    return quire.Config(quire.Model(list(layers), max_model_len=512), num_pages=pages, **options)


class Rig:
    """Everything that a step needs, on a driver."""

    def __init__(self, plan: Optional[quire.Config] = None, driver: str = "cpu", **options: Any) -> None:
        self.runtime = quire.Runtime(driver=driver)
        self.config = plan or config()
        self.cache = quire.Cache(self.config, runtime=self.runtime, **options)
        self.device = quire.Device(self.runtime)
        self.stream = quire.Stream(self.device)
        self.memory = quire.Memory(self.device, self.config)
        self.batch = quire.Batch(self.config)

    def want(self, tokens: int, count: int = 1) -> np.ndarray:
        """Entries of `count` new sequences, each with its own `tokens` symbols."""
        want = quire.entries(count)
        want["sequence"] = [self.cache.create_sequence() for _ in range(count)]
        want["num_symbols"] = want["num_tokens"] = tokens
        want["symbols_offset"] = np.arange(count) * tokens
        return want

    def computed(self, symbols: np.ndarray, **identity: Any) -> int:
        """A sequence whose prompt is committed."""
        want = quire.entries(1)
        want["sequence"] = sequence = self.cache.create_sequence(**identity)
        want["flags"] = quire.Entry.MATCH
        at = 0
        while at < len(symbols):
            want["symbols_position"] = want["symbols_offset"] = at
            want["num_symbols"] = want["num_tokens"] = len(symbols) - at
            with self.cache.reserve(want, symbols) as step:
                step.check()
                self.memory.prepare(step, self.stream)
            at = int(step.results[0]["position"] + step.results[0]["num_tokens"])
            want["flags"] = 0
        return sequence


def symbols(count: int, start: int = 1000) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.uint32)


class Test(unittest.TestCase):
    @contextlib.contextmanager
    def refused(self, code: quire.Code, *words: str) -> Iterator[None]:
        """The block raises an Error with this code, whose message has these words."""
        with self.assertRaises(quire.Error) as caught:
            yield
        self.assertEqual(caught.exception.code, code, caught.exception)
        for word in words:
            self.assertIn(word, str(caught.exception))
