"""Methods of all objects in random order with random arguments, right and wrong ones: every call answers or raises, and the process lives.

QUIRE_SEED says the seed, QUIRE_STEPS how many calls. Best run over a checked library with AddressSanitizer:

    LD_PRELOAD=$(clang -print-file-name=libclang_rt.asan-x86_64.so) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \\
      QUIRE_LIBRARY=build/asan/lib/libquire.so.0 PYTHONPATH=bindings/python python3 bindings/python/tests/test_random.py
"""
import gc
import inspect
import io
import os
import random
import unittest
import warnings
from collections import Counter

import numpy as np

import quire
from rig import FULL, HYBRID, LAYER, Rig, config, symbols

RAISED = (quire.Error, TypeError, ValueError, OverflowError, BufferError, AttributeError, IndexError, EOFError, ImportError)
NUMBERS = [0, 1, -1, 2, 3, 7, 16, 33, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1, 1 << 64, -5]
TYPES = [np.float32, np.uint32, np.int32, np.int64, np.uint8, np.float64, np.float16]
# Parameters that mostly get what they ask for.
WANTED = {"group": quire.GroupBatch, "kv": quire.PagedKV, "state": quire.PagedState, "step": quire.Step, "stream": quire.Stream}


class Caller:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.restart()

    def restart(self) -> None:
        rig = Rig(config(HYBRID) if self.chance.random() < 0.5 else None)
        self.objects = [rig.runtime, rig.config, rig.cache, rig.cache, rig.cache, rig.device, rig.stream, rig.stream, rig.memory,
                        rig.memory, rig.batch, quire.Model([LAYER], 64)]
        self.sequences = [rig.cache.create_sequence() for _ in range(3)]

    def array(self) -> np.ndarray:
        chance = self.chance
        shape = [chance.choice([0, 1, 2, 3, 8, 16, 40]) for _ in range(chance.choice([1, 1, 1, 2, 3, 3, 4]))]
        values = np.full(shape, chance.choice([0, 1, 7, 100])).astype(chance.choice(TYPES))
        values = values[::2] if chance.random() < 0.2 else values.T if chance.random() < 0.1 else values
        values.flags.writeable = chance.random() < 0.9
        return values

    def structs(self, made: np.ndarray) -> np.ndarray:
        for name in made.dtype.names:
            if self.chance.random() < 0.5:
                made[name] = self.chance.choice([0, 1, 2, 7, 16, 40, 1 << 31, (1 << 32) - 1])
        if self.chance.random() < 0.7:
            made["sequence"] = self.chance.choice(self.sequences)
        return made

    def entries(self) -> np.ndarray:
        made = quire.entries(self.chance.choice([0, 1, 2, 300]))
        if self.chance.random() < 0.5:
            return self.structs(made)
        made["sequence"] = self.chance.choice(self.sequences)
        made["num_symbols"] = made["num_tokens"] = self.chance.choice([1, 5, 20])
        made["flags"] = self.chance.choice([0, 1, 2, 8])
        return made

    def value(self, parameter: str) -> object:
        chance = self.chance
        if chance.random() < 0.85:
            fitting = [thing for thing in self.objects if type(thing) is WANTED.get(parameter)]
            if fitting:
                return chance.choice(fitting)
            if parameter == "sequence":
                return chance.choice(self.sequences)
            if parameter == "entries":
                return self.entries()
        return chance.choice([
            lambda: chance.choice(NUMBERS), self.array, self.array, self.entries,
            lambda: self.structs(quire.outcomes(chance.choice([0, 1, 2]))),
            lambda: chance.choice([None, "", "cpu", b"x", 1.5, [1, 2, 3], (3, 2, 8), True, "bf16", "lowered"]),
            lambda: symbols(chance.choice([0, 1, 20, 40])), lambda: symbols(20), lambda: chance.choice(self.sequences),
            lambda: chance.choice(self.objects), lambda: io.BytesIO(bytes(chance.randrange(300))),
        ])()

    def call(self) -> None:
        chance = self.chance
        thing = chance.choice([thing for thing in self.objects if not isinstance(thing, np.ndarray)])
        names = [name for name in dir(thing) if not name.startswith("_") and name != "close"]
        name = "close" if chance.random() < 0.005 else chance.choice([*names, "__dlpack__", "__array__"])
        try:
            answer = getattr(thing, name)
            if callable(answer):
                positional, named = [], {}
                for parameter in inspect.signature(answer).parameters.values():
                    if parameter.name in ("timeout_ns", "shape"):  # would wait, or ask for terabytes
                        continue
                    if parameter.kind is parameter.KEYWORD_ONLY:
                        if chance.random() < 0.25:
                            named[parameter.name] = self.value(parameter.name)
                    elif not named and (parameter.default is parameter.empty or chance.random() < 0.4):
                        positional.append(self.value(parameter.name))
                answer = answer(*positional, **named)
        except RAISED as error:
            self.done[type(error).__name__] += 1
            return
        self.done[f"{type(thing).__name__}.{name}"] += 1
        if name in ("create_sequence", "fork"):
            self.sequences.append(answer)
        for made in answer if isinstance(answer, (list, tuple)) else [answer]:
            if isinstance(made, (quire.Tensor, np.ndarray, *WANTED.values())):
                self.objects.append(made)
            if isinstance(made, np.ndarray) and made.size and made.dtype.names is None:
                made.max()  # every byte is readable
        if len(self.objects) > 80:
            del self.objects[12:40]


class Anything(unittest.TestCase):
    def test_every_call_answers_or_raises(self):
        seed = int(os.environ.get("QUIRE_SEED", "1"))
        print(f"seed {seed} (QUIRE_SEED)")
        caller = Caller(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy about our numbers
            for i in range(int(os.environ.get("QUIRE_STEPS", "100000" if FULL else "3000"))):
                if i % 400 == 399:
                    caller.restart()
                    gc.collect()
                caller.call()
        self.assertGreater(len(caller.done), 50, caller.done)
        self.assertIn("Error", caller.done)


if __name__ == "__main__":
    unittest.main()
