"""Wrong calls raise, with a code or a TypeError, and never crash: by example, and in random orders
of closing (QUIRE_SEED).
"""
import gc
import io
import os
import pickle
import random
import threading
import time
import unittest

import numpy as np

import quire
from rig import FULL, HYBRID, LAYER, Rig, Test, config, symbols

FAILED = quire.Code.FAILED_PRECONDITION
INVALID = quire.Code.INVALID_ARGUMENT


class AfterClose(Test):
    def test_every_object_says_that_it_is_closed(self):
        rig = Rig()
        model = quire.Model([LAYER], 64)
        connector = quire.Connector("null", runtime=rig.runtime)
        step = rig.cache.reserve(rig.want(3), symbols(3))
        for closed in (model, connector, rig.runtime, rig.config, rig.cache, rig.device, rig.stream, rig.memory):
            closed.close()
            closed.close()
            self.assertTrue(closed.closed)
        calls = [
            lambda: model.info, model.layers, model.describe, lambda: quire.Config(model, num_pages=9),
            lambda: connector.info, connector.stats, connector.health, rig.runtime.probe, lambda: quire.Device(rig.runtime),
            lambda: quire.Cache(config(), runtime=rig.runtime), lambda: quire.Connector("null", runtime=rig.runtime),
            lambda: rig.config.info, lambda: rig.config.groups, lambda: rig.config.place(0), rig.config.regions, rig.config.describe,
            rig.config.capacity, lambda: rig.config.compare(config()), lambda: quire.Batch(rig.config),
            lambda: quire.Memory(rig.device, config()), lambda: rig.device.info, lambda: rig.device.empty([1], "int8"),
            lambda: rig.device.take(np.zeros(1)), lambda: quire.Stream(rig.device), rig.stream.synchronize,
            lambda: rig.stream.fill(np.zeros(1), 0), lambda: rig.memory.tensor(0), lambda: rig.memory.region(0),
            lambda: rig.memory.paged_kv(0), rig.cache.create_sequence, lambda: rig.cache.finish(1),
            lambda: rig.cache.reserve(quire.entries(1)),
            rig.cache.stats, rig.cache.verify, rig.cache.reset, lambda: rig.cache.probe(symbols(4)), lambda: rig.cache.pin(symbols(4)),
            step.commit, step.abort, step.copies, step.export, lambda: step.info, lambda: rig.batch.fill(step),
        ]
        for call in calls:
            with self.subTest(call=call), self.refused(FAILED, "closed"):
                call()

    def test_a_step_ends_once(self):
        rig = Rig()
        step = rig.cache.reserve(rig.want(3), symbols(3))
        step.commit(symbols(1))
        again = rig.cache.reserve(rig.want(3), symbols(3))
        again.abort()
        for ended in (step, again):
            for call in (ended.commit, ended.abort, ended.export, ended.zeroes, lambda e=ended: rig.batch.fill(e),
                         lambda e=ended: rig.memory.prepare(e, rig.stream)):
                with self.refused(quire.Code.NOT_FOUND, "ended"):
                    call()
        self.assertEqual(rig.cache.stats().aborted_steps, 1)

    def test_closing_and_dropping_in_any_order(self):
        seed = int(os.environ.get("QUIRE_SEED", "1"))
        print(f"seed {seed} (QUIRE_SEED)")
        chance = random.Random(seed)
        for _ in range(300 if FULL else 30):
            rig = Rig(config(HYBRID) if chance.random() < 0.5 else None)
            step = rig.cache.reserve(rig.want(20), symbols(20))
            group = rig.batch.fill(step)[0]
            rig.memory.prepare(step, rig.stream)
            tensor = rig.memory.tensor(0, kind="lowered", as_bytes=True)
            things = dict(vars(rig), step=step, group=group, tensor=tensor, view=tensor.numpy(), array=group.positions,
                          kv=rig.memory.paged_kv(0), capsule=tensor.__dlpack__(max_version=(1, 0)))
            del rig, step, group, tensor
            names = list(things)
            chance.shuffle(names)
            for name in names:
                thing = things.pop(name)
                if hasattr(thing, "close") and chance.random() < 0.5:
                    thing.close()
                del thing
                if chance.random() < 0.1:
                    gc.collect()

    def test_views_outlive_everything(self):
        rig = Rig()
        view = rig.memory.tensor(0).numpy()
        view[...] = 2.5
        rows = rig.batch.fill(rig.cache.reserve(rig.want(5), symbols(5)))[0].positions
        for thing in list(vars(rig).values()):
            if hasattr(thing, "close"):
                thing.close()
        del rig, thing
        gc.collect()
        self.assertTrue((view == 2.5).all())
        self.assertEqual(rows.tolist(), [0, 1, 2, 3, 4])


class WrongArguments(Test):
    def test_arrays_of_another_type_name_the_cast(self):
        rig = Rig()
        want = rig.want(4)
        for wrong in (np.arange(4), np.arange(4.0), np.arange(4, dtype=np.int32), np.arange(8, dtype=np.uint32)[::2],
                      np.zeros((2, 2), np.uint32), [0.5], [-1], [1 << 32], ["a"], "abcd", None, 7):
            with self.subTest(symbols=wrong), self.assertRaises(TypeError if wrong is not None else quire.Error):
                rig.cache.reserve(want, wrong)
        for wrong in (np.zeros(4), np.zeros(1, np.uint64), [1], None, np.zeros(1, want.dtype.descr[:2])):
            with self.subTest(entries=wrong), self.assertRaisesRegex(TypeError, "quire.entries"):
                rig.cache.reserve(wrong)
        with self.assertRaises((BufferError, ValueError, TypeError)):
            rig.cache.reserve(np.concatenate([want, want, want])[::2], symbols(4))
        step = rig.cache.reserve(want, symbols(4))
        with self.assertRaisesRegex(TypeError, "quire.outcomes"):
            step.commit_rows(np.zeros(1))
        with self.refused(INVALID, "2 given for 1 rows"):
            step.commit(symbols(2))
        with self.assertRaisesRegex(TypeError, "int32"):
            step.fill(quire.FillKind.TABLE, np.zeros(9, np.int64))
        with self.assertRaises((BufferError, ValueError)):
            read_only = np.zeros(9, np.int32)
            read_only.flags.writeable = False
            step.fill(quire.FillKind.TABLE, read_only)
        step.commit(symbols(1))  # nothing had changed

    def test_numbers_out_of_range(self):
        rig = Rig()
        for call in (lambda: rig.cache.finish(-1), lambda: rig.cache.finish(1 << 64),
                     lambda: quire.Config(quire.Model([LAYER], 64), num_pages=-1),
                     lambda: rig.memory.tensor(-1), lambda: quire.Cache(rig.config, max_sequences=1 << 32),
                     lambda: rig.device.empty([1 << 40, 1 << 40], "fp32"), lambda: rig.device.empty([1] * 6, "fp32")):
            with self.subTest(call=call), self.assertRaises(quire.Error) as caught:
                call()
            self.assertIn(caught.exception.code, (INVALID, quire.Code.OUT_OF_RANGE))
        with self.assertRaises(TypeError):
            rig.cache.finish("7")
        with self.assertRaises((OverflowError, quire.Error)):
            quire.Model([LAYER], -1)
        with self.refused(quire.Code.NOT_FOUND, "not live"):
            rig.cache.finish(7)
        with self.refused(INVALID, "num_kv_heads"):
            quire.Model([quire.Layer(quire.LayerKind.FULL)], 64)
        with self.assertRaisesRegex(TypeError, "no option 'pages'"):
            rig.config.capacity(pages=3)
        with self.assertRaisesRegex(ValueError, "GiB"):
            quire.Config(quire.Model([LAYER], 64), memory_bytes="80 giga")
        with self.assertRaisesRegex(TypeError, "unknown"):
            quire.dtype_of("int3")

    def test_ops_check_before_they_write(self):
        rig = Rig()
        group = rig.batch.fill(rig.cache.reserve(rig.want(3), symbols(3)))[0]
        kv = rig.memory.paged_kv(0)
        good = np.zeros((3, 2, 8), np.float32)
        for key in (np.zeros((3, 2, 8)), np.zeros((2, 2, 8), np.float32), np.zeros((3, 2, 9), np.float32), np.zeros(3, np.float32)):
            with self.assertRaises(quire.Error):
                rig.stream.kv_append(kv, group, key, good)
        read_only = np.zeros((3, 4, 8), np.float32)
        read_only.flags.writeable = False
        with self.refused(quire.Code.PERMISSION_DENIED, "out"):
            rig.stream.attention(kv, group, np.zeros((3, 4, 8), np.float32), read_only)
        with self.assertRaisesRegex(TypeError, "__dlpack__"):
            rig.stream.kv_append(kv, group, [[1.0]], good)
        with self.refused(INVALID, "bytes"):
            rig.stream.copy(np.zeros(3), np.zeros(4))
        with self.refused(INVALID, "not dense"):
            rig.stream.fill(np.zeros((4, 4))[:, :2], 0)
        with self.assertRaisesRegex(TypeError, "contiguous"):
            rig.stream.attention(kv, group, good, good, alibi_slopes=np.zeros(4))

    def test_a_batch_that_was_not_filled(self):
        batch = quire.Batch(config(HYBRID))
        with self.refused(FAILED, "not filled"):
            _ = batch.groups[0].positions

    def test_memory_of_another_plan(self):
        rig, other = Rig(), Rig(config(HYBRID))
        step = rig.cache.reserve(rig.want(3), symbols(3))
        with self.refused(INVALID):
            other.memory.prepare(step, other.stream)
        with self.refused(quire.Code.OUT_OF_RANGE):
            quire.Batch(config(HYBRID), shard=3).fill(other.cache.reserve(other.want(3), symbols(3)))
        with self.assertRaises(quire.Error):
            quire.Batch(config(HYBRID)).fill(step)  # of two groups

    def test_errors_are_values(self):
        with self.assertRaises(quire.Error) as caught:
            quire.Model.from_json("{")
        copied = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((copied.code, copied.message), (INVALID, caught.exception.message))
        with self.assertRaises(TypeError):
            quire.Model.from_json({"a": 1})
        info = config().info
        with self.assertRaisesRegex(AttributeError, "does not change"):
            info.num_pages = 4


class Threads(Test):
    """A file that a session is written to stops in the middle of a call on the cache."""

    def setUp(self):
        self.rig = Rig()
        self.sequence = self.rig.computed(symbols(40))

    def save(self, file):
        return quire.save_session(self.rig.cache, self.sequence, file, symbols(40), weights="w", memories=[self.rig.memory],
                                  streams=[self.rig.stream])

    def test_a_call_during_another_one_is_refused(self):
        rig, answers = self.rig, []
        inside, leave = threading.Event(), threading.Event()

        class Slow(io.BytesIO):
            def write(self, data):
                inside.set()
                leave.wait(10)
                return super().write(data)

        saving = threading.Thread(target=self.save, args=(Slow(),))
        saving.start()
        self.assertTrue(inside.wait(10))
        for call in (rig.cache.create_sequence, lambda: rig.cache.finish(self.sequence), lambda: rig.cache.reserve(quire.entries(1)),
                     rig.cache.close, rig.cache.verify, rig.stream.synchronize, rig.stream.close):
            with self.subTest(call=call), self.refused(FAILED, "one call at a time"):
                call()
        answers.append(rig.cache.probe(symbols(40)).hit_tokens)  # any thread
        leave.set()
        saving.join()
        self.assertEqual(answers, [32])
        rig.cache.verify()

    def test_the_same_thread_inside_a_callback(self):
        class Calls(io.BytesIO):
            def write(inner, data):
                self.rig.cache.finish(self.sequence)

        with self.refused(FAILED, "one call at a time"):
            self.save(Calls())
        self.rig.cache.finish(self.sequence)

    def test_what_a_file_raises_comes_back(self):
        class Full(io.BytesIO):
            def write(self, data):
                raise OSError(28, "no space")

        with self.assertRaisesRegex(OSError, "no space"):
            self.save(Full())
        file = io.BytesIO()
        info = self.save(file)
        self.assertEqual((info.num_tokens, info.bytes), (40, len(file.getvalue())))

    def test_closing_while_others_read(self):
        rig, stop, raised = self.rig, threading.Event(), []

        def read():
            while not stop.is_set():
                try:
                    rig.cache.probe(symbols(40))
                    rig.cache.stats()
                    rig.memory.tensor(0).numpy()[0, 0, 0, 0, 0]
                except quire.Error as error:
                    raised.append(error.code)

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        for _ in range(20):
            rig.cache.probe(symbols(40))
        rig.cache.close()
        rig.memory.close()
        deadline = time.monotonic() + 10
        while not raised and time.monotonic() < deadline:
            time.sleep(0.001)
        stop.set()
        for reader in readers:
            reader.join()
        self.assertEqual(set(raised), {FAILED})


if __name__ == "__main__":
    unittest.main()
