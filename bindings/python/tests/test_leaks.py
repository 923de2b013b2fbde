"""Nothing is left of 10^5 objects (10^4 without QUIRE_FULL=1): resident memory, the library's
counters, and what DLPack gives back.
"""
import ctypes
import gc
import io
import os
import unittest
import weakref

import numpy as np

import quire
from quire import _dlpack
from rig import FULL, Rig, Test, config, symbols

ROUNDS = 10_000 if FULL else 1_000


def resident() -> int:
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free, but was kept for later
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Leaks(Test):
    def no_growth(self, make, rounds=ROUNDS, limit=2 << 20, warm=200):
        for _ in range(max(rounds // 5, warm)):  # what malloc and the collector keep for later
            make()
        before = resident()
        for _ in range(rounds):
            make()
        self.assertLess(resident() - before, limit, f"bytes of {rounds} rounds")
        self.assertEqual(len(_dlpack._lent), 0)

    def test_objects_of_a_step(self):
        rig = Rig()

        def make():  # per round: 10 objects
            want = rig.want(20)
            sequence = int(want["sequence"][0])
            with rig.cache.reserve(want, symbols(20)) as step:
                group = quire.Batch(rig.config).fill(step)[0]
                self.assertEqual(group.table.shape[1], 1)
                rig.memory.prepare(step, rig.stream)
            aborted = rig.cache.reserve(rig.want(4), symbols(4))
            aborted.abort()
            rig.stream.synchronize()
            for result in (aborted.results[0]["sequence"], sequence):
                rig.cache.finish(int(result))

        self.no_growth(make)
        stats = rig.cache.stats()
        self.assertEqual((stats.num_sequences, stats.pages_used, stats.holds, stats.pins, stats.loads), (0, 0, 0, 0, 0))
        self.assertEqual(stats.steps - stats.aborted_steps, stats.aborted_steps)
        rig.cache.verify()

    def test_views_and_capsules(self):
        rig = Rig()
        array = np.zeros((4, 6), np.float32)

        def make():  # 8 objects
            tensor = rig.memory.tensor(0)
            view = tensor.numpy()
            taken = rig.device.take(array)
            self.assertEqual(np.from_dlpack(tensor).ctypes.data, view.ctypes.data)
            tensor.__dlpack__(max_version=(1, 0))
            taken.__dlpack__(max_version=(1, 0))
            rig.device.empty([16], "fp32")
            rig.memory.paged_kv(0)

        self.no_growth(make)

    def test_errors(self):
        rig = Rig()

        def make():  # 4 objects
            for call in (lambda: rig.cache.finish(99), lambda: rig.memory.tensor(9), lambda: rig.device.take(np.zeros(3)[::-1]),
                         lambda: quire.Model.from_json("{")):
                try:
                    call()
                except quire.Error as error:
                    self.assertTrue(error.message)

        self.no_growth(make)

    def test_whole_engines(self):
        plan = config()
        runtime = quire.Runtime(driver="cpu")
        device = quire.Device(runtime)

        def make():  # 9 objects, some in circles
            model = quire.Model.from_json('{"architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1, "hidden_size": 64, '
                                          '"num_attention_heads": 4, "max_position_embeddings": 64, "torch_dtype": "float16"}')
            other = quire.Config(model, num_pages=9)
            cache = quire.Cache(other, max_sequences=2)
            stream, memory = quire.Stream(device), quire.Memory(device, plan)
            connector = quire.Connector("null", runtime=runtime)
            circle = [cache, stream, memory, connector]
            circle.append(circle)
            other.capacity()

        self.no_growth(make, rounds=ROUNDS // 10, limit=4 << 20)

    def test_tiers_and_sessions(self):
        runtime = quire.Runtime(driver="cpu")
        device = quire.Device(runtime)
        plan = config(pages=40)

        def make():
            cache, stream, memory = quire.Cache(plan, max_sequences=4), quire.Stream(device), quire.Memory(device, plan)
            tier = quire.Tier(quire.Connector("null", runtime=runtime), quire.Unit.COMMITTED)
            tiers = quire.Tiers(cache, "w", [memory], [stream], [tier])
            sequence = cache.create_sequence()
            want = quire.entries(1)
            want["sequence"], want["num_symbols"], want["num_tokens"] = sequence, 20, 20
            with cache.reserve(want, symbols(20)):
                pass
            tiers.run()
            file = io.BytesIO()
            quire.save_session(cache, sequence, file, symbols(20), weights="w", memories=[memory], streams=[stream])
            file.seek(0)
            quire.restore_session(cache, cache.create_sequence(), file, weights="w", memories=[memory], streams=[stream])

        self.no_growth(make, rounds=ROUNDS // 40, limit=4 << 20, warm=50)

    def test_the_library_gives_a_memory_up(self):
        """The deleter of a bound tensor runs when, and only when, the last of many users has gone.
        """
        rig = Rig()
        region = rig.config.regions()[0]
        whole = np.zeros(region.bytes + region.alignment, np.uint8)
        start = -whole.ctypes.data % region.alignment
        for queue in [lambda memory, stream: memory.poison(stream), lambda memory, stream: stream.fill(memory.tensor(0, kind="id"), 0)] * 5:
            buffer = whole[start:start + region.bytes]
            gone = weakref.ref(buffer)
            memory = quire.Memory.bind(rig.device, rig.config, [buffer])
            del buffer
            stream = quire.Stream(rig.device)
            queue(memory, stream)
            memory.close()
            self.assertIsNotNone(gone())  # the stream has queued work on it
            stream.synchronize()
            self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
