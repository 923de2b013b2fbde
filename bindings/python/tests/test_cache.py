"""Plans and steps do what the headers say, by example."""
import unittest

import numpy as np

import quire
from rig import HYBRID, LAYER, Rig, Test, config, symbols


class Plans(Test):
    def test_layers_go_in_and_come_out(self):
        layers = [
            quire.Layer(quire.LayerKind.SLIDING_WINDOW, num_kv_heads=2, num_q_heads=8, head_dim_k=64, head_dim_v=32, dtype="fp16",
                        window=128, sink_tokens=4, name="first", block_tokens=32, softcap=30.0),
            quire.Layer(quire.LayerKind.MLA, layer=1, num_kv_heads=1, num_q_heads=8, head_dim_k=576, dtype="bf16", rope_dim=64),
            quire.Layer(quire.LayerKind.STATE, layer=2, state_kind=quire.StateKind.GDN, num_kv_heads=4,
                        state=(quire.StateTensor("bf16", (96, 3), shard=1), quire.StateTensor("fp32", (8, 16, 16), shard=1)),
                        state_parts=(32, 32, 32, 0)),
        ]
        model = quire.Model(layers, 4096)
        back = model.layers()
        self.assertEqual([(b.kind, b.layer, b.window, b.sink_tokens, b.block_tokens, b.head_dim_v, b.softcap) for b in back],
                         [(b.kind, b.layer, b.window, b.sink_tokens, b.block_tokens, b.head_dim_v, b.softcap) for b in layers])
        self.assertEqual((back[0].name, str(back[0].dtype), back[1].rope_dim), ("first", "float16", 64))
        self.assertEqual([(str(t.dtype), t.shape, t.shard) for t in back[2].state], [("bfloat16", (96, 3), 1), ("float32", (8, 16, 16), 1)])
        self.assertEqual(quire.Model(back, 4096).describe(), model.describe())
        self.assertEqual((model.info.num_layers, model.info.max_model_len), (3, 4096))

    def test_a_plan_answers(self):
        plan = quire.Config(quire.Model(HYBRID, 512), memory_bytes="1.5MiB", policy="auto", kv_dtype="fp8")
        info = plan.info
        self.assertEqual((info.num_groups, info.policy, info.max_model_len), (2, "auto", 512))
        self.assertEqual([group.group for group in plan.groups], [0, 1])
        kv, state = plan.place(0), plan.place(1)
        self.assertNotEqual(kv.group, state.group)
        self.assertEqual(str(plan.kv_view(0).dtype), "float8_e4m3fn")
        self.assertEqual(plan.kv_view(0).codec, quire.Codec.STRIDED)
        self.assertEqual(plan.state_view(1).shape[:3], (4, 8, 8))
        self.assertEqual([field.role for field in plan.fields(0)], [quire.FieldRole.ELEMENTS] * 2)
        self.assertGreater(plan.lowering(kv.group).num_lowered_ids, 0)
        self.assertGreaterEqual(plan.regions()[0].bytes, 1)
        segments = plan.segments([1, 2], kv.group)
        self.assertTrue((segments["bytes"] > 0).all() and len(segments) > 0)
        self.assertGreater(plan.capacity(128, 4, step_depth=1).guaranteed, 0)
        same = plan.compare(quire.Config(quire.Model(HYBRID, 512), memory_bytes=3 << 19, kv_dtype="fp8"))
        self.assertEqual((same.level, same.reason), (quire.CompatLevel.IDENTICAL, ""))
        self.assertIn("groups", plan.describe())
        with self.refused(quire.Code.NOT_FOUND):
            plan.place(7)
        with self.refused(quire.Code.RESOURCE_EXHAUSTED, "memory_bytes"):
            quire.Config(quire.Model(HYBRID, 512), memory_bytes=[1024])


class Steps(Test):
    def test_a_block_that_raises_aborts(self):
        rig = Rig()
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            with rig.cache.reserve(rig.want(20), symbols(20)):
                _ = 1 / 0
        stats = rig.cache.stats()
        self.assertEqual((stats.aborted_steps, stats.pages_used), (1, 0))
        self.assertEqual([rig.cache.group_stats(group).pages_used for group in range(rig.config.info.num_groups)],
                         [0] * rig.config.info.num_groups)

    def test_a_block_that_ends_commits(self):
        rig = Rig()
        want = rig.want(20)
        with rig.cache.reserve(want, symbols(20)) as step:
            self.assertEqual((step.info.num_rows, step.info.num_tokens, bool(step), step.id), (1, 20, True, 1))
        self.assertEqual(rig.cache.sequence(int(want["sequence"][0])).committed, 20)
        self.assertEqual(rig.cache.stats().aborted_steps, 0)

    def test_a_commit_that_fails_at_the_end_of_a_block_aborts(self):
        rig = Rig(step_depth=2)
        want = rig.want(20)
        first = rig.cache.reserve(want, symbols(20))
        want["num_symbols"], want["num_tokens"] = 0, 1
        with self.refused(quire.Code.FAILED_PRECONDITION, "oldest"):
            with rig.cache.reserve(want):
                pass
        self.assertEqual(rig.cache.stats().aborted_steps, 1)
        first.commit(symbols(1))

    def test_decoding_drafts_and_chunks(self):
        rig = Rig()
        want = rig.want(10, 2)
        a, b = map(int, want["sequence"])
        with rig.cache.reserve(want, symbols(20)) as step:
            step.commit(symbols(2, 500))  # one of each
        self.assertEqual([rig.cache.sequence(s).known for s in (a, b)], [11, 11])
        # Drafts: three more symbols for a; two of the four are accepted, and one follows.
        want["symbols_position"], want["symbols_offset"] = 11, 0
        want["num_symbols"], want["num_tokens"] = [3, 0], [4, 1]
        with rig.cache.reserve(want, symbols(3, 600)) as step:
            step.commit(np.array([601, 777, 778], np.uint32), accepted=np.array([2, 1]), counts=np.array([1, 2]))
        self.assertEqual([(i.committed, i.known) for i in map(rig.cache.sequence, (a, b))], [(12, 13), (11, 13)])
        # With everything said.
        want["num_symbols"], want["num_tokens"] = 0, 1
        step = rig.cache.reserve(want)
        rows = quire.outcomes(2)
        rows["sequence"], rows["num_accepted"] = [a, b], 1
        rows["symbols_position"], rows["symbols_offset"], rows["num_symbols"] = [13, 13], [0, 0], [1, 0]
        step.commit_rows(rows, symbols(1))
        self.assertEqual([(i.committed, i.known) for i in map(rig.cache.sequence, (a, b))], [(13, 14), (12, 13)])
        rig.cache.verify()

    def test_symbols_of_a_commit_belong_to_their_rows(self):
        rig = Rig()
        want = rig.want(15, 2)
        with rig.cache.reserve(want, symbols(30)) as step:
            step.commit(np.array([1, 2, 3], np.uint32), counts=np.array([2, 1]))
        want["num_symbols"] = want["symbols_offset"] = 0
        want["num_tokens"] = 1
        with rig.cache.reserve(want) as step:
            step.commit(counts=np.array([0, 0]))
        for prompt, symbol in ((symbols(15), 1), (symbols(15, 1015), 3)):
            self.assertEqual(rig.cache.probe([*prompt.tolist(), symbol, 9]).hit_tokens, 16)
            self.assertEqual(rig.cache.probe([*prompt.tolist(), 2, 9]).hit_tokens, 0)

    def test_what_is_refused_says_why(self):
        rig = Rig(config(pages=40), max_sequences=8)
        want = rig.want(300, 3)
        step = rig.cache.reserve(want, symbols(900))
        self.assertEqual(step.results["code"].tolist(), [0, 0, quire.Code.RESOURCE_EXHAUSTED])
        self.assertEqual((len(step.rows), len(step.refused)), (2, 1))
        self.assertEqual(step.refused["reason"][0], quire.Refusal.NO_ROOM)
        with self.refused(quire.Code.RESOURCE_EXHAUSTED, "NO_ROOM", "pages are missing"):
            step.check()
        step.commit(symbols(2))
        rig.cache.preempt(int(want["sequence"][0]))
        nothing = rig.cache.reserve(quire.entries(1))
        self.assertFalse(nothing)
        self.assertEqual(nothing.results["reason"][0], quire.Refusal.STALE)
        with nothing:
            pass
        with self.refused(quire.Code.NOT_FOUND, "no step"):
            nothing.commit()
        self.assertIn("no such sequence", quire.refusal_text(quire.Refusal.STALE))

    def test_tables_by_hand_equal_the_batch(self):
        rig = Rig()
        step = rig.cache.reserve(rig.want(40, 2), symbols(80))
        group = rig.batch.fill(step)[0]
        table = np.full((2, 8), -1, np.int32)
        self.assertEqual(step.fill(quire.FillKind.TABLE, table, pitch=8, fill_value=-1), 16)
        self.assertEqual(table[:, :3].tolist(), group.table[0, :, :3].tolist())
        slots = np.zeros(80, np.int64)
        step.fill(quire.FillKind.SLOTS, slots)
        self.assertEqual(slots.tolist(), group.slots[0].tolist())
        with self.refused(quire.Code.OUT_OF_RANGE):
            step.fill(quire.FillKind.POSITIONS, np.zeros(3, np.int32))
        self.assertEqual((group.query_indptr.tolist(), group.kv_len.tolist()), ([0, 40, 80], [40, 40]))
        self.assertEqual(group.positions.tolist(), list(range(40)) * 2)
        base, size = rig.batch.memory.ctypes.data, rig.batch.memory.nbytes
        for array in (group.query_indptr, group.kv_len, group.positions, group.table, group.slots):
            self.assertTrue(base <= array.ctypes.data and array.ctypes.data + array.nbytes <= base + size)
        self.assertGreater(len(step.export()), 0)
        fixed = quire.Batch(rig.config, num_rows=4, num_tokens=100, max_pitch=True)
        padded = fixed.fill(step)[0]
        self.assertEqual((padded.kv_len.tolist(), padded.slots.shape[1]), ([40, 40, 0, 0], 100))
        self.assertEqual(padded.table.shape[2], rig.config.groups[0].table_pitch)

    def test_a_batch_grows_and_old_arrays_stay(self):
        rig = Rig(config(pages=200), max_sequences=64)
        small = rig.cache.reserve(rig.want(3), symbols(3))
        old = rig.batch.fill(small)[0].positions
        small.commit(symbols(1))
        large = rig.cache.reserve(rig.want(40, 50), symbols(2000))
        self.assertEqual(len(rig.batch.fill(large)[0].positions), 2000)
        self.assertEqual(old.tolist(), [0, 1, 2])

    def test_copies_of_a_fork(self):
        rig = Rig()
        sequence = rig.computed(symbols(20))
        child = rig.cache.fork(sequence)
        want = quire.entries(2)
        want["sequence"], want["num_tokens"], want["num_symbols"], want["symbols_position"] = [sequence, child], 1, 1, 20
        with rig.cache.reserve(want, symbols(1)) as step:
            copies = step.check().copies()
            self.assertEqual(len(copies), step.info.num_copies)
            self.assertGreater(len(copies), 0)
            self.assertEqual(len(step.zeroes()), step.info.num_zeroes)
            rig.memory.prepare(step, rig.stream)
        rig.cache.truncate(child, 16)
        self.assertEqual(rig.cache.sequence(child).committed, 16)


class Prefixes(Test):
    def test_hits_probes_and_identity(self):
        rig = Rig()
        prompt = symbols(40)
        rig.cache.finish(rig.computed(prompt, salt="a"))
        self.assertEqual(rig.cache.probe(prompt, salt="a").hit_tokens, 32)
        for other in ({}, {"salt": "b"}, {"salt": "a", "epoch": 1}, {"salt": "a", "adapter": "x"}):
            found = rig.cache.probe(prompt, **other)
            self.assertEqual((found.hit_tokens, found.miss), (0, quire.Miss.UNKNOWN_PREFIX))
        self.assertEqual(rig.cache.probe(prompt.tolist(), salt=b"a").hit_tokens, 32)  # lists are converted
        pin, tokens = rig.cache.pin(prompt, salt="a", priority=255)
        self.assertEqual((tokens, rig.cache.pin_info(pin).tokens, rig.cache.stats().pins), (32, 32, 1))
        rig.cache.unpin(pin)
        with self.refused(quire.Code.NOT_FOUND):
            rig.cache.unpin(pin)
        ids = np.array([1], np.int32)
        self.assertGreaterEqual(rig.cache.forget_blocks(0, ids), 1)
        rig.cache.reset()
        self.assertEqual(rig.cache.probe(prompt, salt="a").hit_tokens, 0)
        media = rig.cache.add_media(bytes(32), 10)
        self.assertGreaterEqual(media, 1 << 31)
        with self.refused(quire.Code.INVALID_ARGUMENT, "32"):
            rig.cache.add_media(b"short", 1)

    def test_layers_given_to_attention_are_those_of_the_model(self):
        model = quire.Model([LAYER], 64)
        self.assertEqual(model.layers()[0].num_q_heads, LAYER.num_q_heads)


if __name__ == "__main__":
    unittest.main()
