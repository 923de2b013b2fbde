"""Views are the same bytes: every address is compared, in NumPy, in torch where it is installed,
and through DLPack both ways.
"""
import gc
import unittest
import weakref

import numpy as np

import quire
from rig import HYBRID, Rig, Test, config, symbols

try:
    import torch
except ImportError:
    torch = None


def aligned(size: int, alignment: int) -> np.ndarray:
    whole = np.zeros(size + alignment, np.uint8)
    start = -whole.ctypes.data % alignment
    return whole[start:start + size]


def of_dtype(dtype: str) -> Rig:
    return Rig(config([quire.Layer(quire.LayerKind.FULL, num_kv_heads=2, num_q_heads=4, head_dim_k=16, head_dim_v=16, dtype=dtype)]))


class Views(Test):
    def test_numpy_sees_the_pages(self):
        rig = Rig()
        base, size = rig.memory.region(0)
        view = rig.config.kv_view(0)
        for item in (0, 1):
            for kind, shape in (("layer", (65, 1, 16, 2, 8)), ("lowered", (65, 16, 2, 8)), ("id", (1, 16, 2, 8))):
                tensor = rig.memory.tensor(0, item=item, kind=kind, id=3)
                array = tensor.numpy()
                self.assertEqual((array.shape, array.strides, array.ctypes.data), (tensor.shape, tensor.strides, tensor.address))
                self.assertEqual(array.shape, shape)
                self.assertEqual(tensor.address, base + view.offset[item] + (3 * view.unit[item] if kind == "id" else 0))
                self.assertTrue(base <= array.ctypes.data < base + size)
                self.assertTrue(np.shares_memory(array, np.asarray(tensor)))
        page = rig.memory.tensor(kind="page", page=2).numpy()
        rig.memory.tensor(0).numpy()[2, 0, 0, 0, 0] = 1.0
        self.assertEqual(page.view(np.float32)[0, 0], 1.0)

    def test_dlpack_gives_the_same_address(self):
        rig = Rig()
        tensor = rig.memory.tensor(0)
        taken = np.from_dlpack(tensor)
        self.assertEqual((taken.ctypes.data, taken.shape, taken.strides), (tensor.address, tensor.shape, tensor.strides))
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        with self.assertRaises(BufferError):
            tensor.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            tensor.__dlpack__(dl_device=(2, 0))
        read_only = rig.memory.tensor(0, read_only=True)
        self.assertFalse(read_only.numpy().flags.writeable)
        with self.assertRaisesRegex(BufferError, "read-only"):
            read_only.__dlpack__()  # 0.x cannot say it
        self.assertIn("dltensor_versioned", repr(read_only.__dlpack__(max_version=(1, 0))))

    def test_a_copy_is_made_only_when_asked_for(self):
        tensor = Rig().memory.tensor(0)
        self.assertEqual(np.asarray(tensor).ctypes.data, tensor.address)
        self.assertNotEqual(tensor.__array__(copy=True).ctypes.data, tensor.address)
        with self.assertRaises(ValueError):
            tensor.__array__(np.float64, copy=False)

    def test_types_that_numpy_lacks_say_so(self):
        for dtype in ("bf16", "fp8_e4m3", "fp8_e5m2"):
            rig = of_dtype(dtype)
            with self.assertRaisesRegex(TypeError, r"NumPy has no (bfloat16|float8_\w+): use torch"):
                rig.memory.tensor(0).numpy()
            as_bytes = rig.memory.tensor(0, kind="lowered", as_bytes=True)
            self.assertEqual(as_bytes.numpy().ctypes.data, rig.memory.tensor(0).address)
            self.assertEqual(as_bytes.dtype.numpy, np.uint8)
        self.assertEqual(str(quire.dtype_of("bf16")), "bfloat16")
        self.assertEqual(of_dtype("fp16").memory.tensor(0).numpy().dtype, np.float16)

    @unittest.skipUnless(torch, "torch is not installed: its views are not compared")
    def test_torch_sees_the_pages(self):
        for dtype, kind in (("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16"), ("fp8_e4m3", "float8_e4m3fn"),
                            ("fp8_e5m2", "float8_e5m2")):
            if not hasattr(torch, kind):
                continue
            rig = of_dtype(dtype)
            tensor = rig.memory.tensor(0)
            view = tensor.torch()
            self.assertEqual((view.data_ptr(), view.dtype, tuple(view.shape)), (tensor.address, getattr(torch, kind), tensor.shape))
            self.assertEqual(tuple(stride * view.element_size() for stride in view.stride()), tensor.strides)
            view[1, 0, 2, 1, 3] = 1.0
            again = rig.memory.tensor(0).torch()
            self.assertEqual(float(again[1, 0, 2, 1, 3]), 1.0)
            del rig, tensor, again
            gc.collect()
            self.assertEqual(float(view[1, 0, 2, 1, 3]), 1.0)  # the view keeps the memory

    def test_states(self):
        rig = Rig(config(HYBRID))
        tensor = rig.memory.tensor(1)
        self.assertEqual(tensor.shape[2:], (4, 8, 8))
        self.assertEqual(tensor.numpy().ctypes.data, tensor.address)
        rig.computed(symbols(40))
        groups = rig.config.groups
        state = next(group.group for group in groups if group.is_state)
        want = rig.want(5)
        step = rig.cache.reserve(want, symbols(5))
        group = rig.batch.fill(step)[state]
        self.assertIsNone(group.table)
        self.assertEqual(group.state_read.shape, (group.num_columns, 1))
        self.assertEqual(group.state_write.dtype, np.int32)
        lowered = rig.memory.tensor(1, kind="lowered")
        self.assertLess(int(group.state_write.max()), lowered.shape[0])


class Taken(Test):
    def test_a_memory_over_bytes_of_the_caller(self):
        rig = Rig()
        region = rig.config.regions()[0]
        buffer = aligned(region.bytes, region.alignment)
        gone = weakref.ref(buffer)
        memory = quire.Memory.bind(rig.device, rig.config, [buffer])
        self.assertEqual(memory.region(0), (buffer.ctypes.data, region.bytes))
        view = memory.tensor(0).numpy()
        self.assertEqual(view.ctypes.data - buffer.ctypes.data, rig.config.kv_view(0).offset[0])
        del memory, buffer
        self.assertIsNotNone(gone())
        del view
        self.assertIsNone(gone())

    def test_a_refused_tensor_stays_the_callers(self):
        rig = Rig()
        region = rig.config.regions()[0]
        small, read_only = aligned(region.bytes - 1, region.alignment), aligned(region.bytes, region.alignment)
        read_only.flags.writeable = False
        for wrong, word in ((small, "bytes"), (read_only, "read-only"), (aligned(region.bytes + 8, region.alignment)[8:], "")):
            gone = weakref.ref(wrong)
            with self.refused(quire.Code.INVALID_ARGUMENT, word):
                quire.Memory.bind(rig.device, rig.config, [wrong])
            del wrong
        del small, read_only
        self.assertIsNone(gone())
        with self.assertRaisesRegex(TypeError, "__dlpack__"):
            quire.Memory.bind(rig.device, rig.config, [aligned(region.bytes, region.alignment), b"bytes"])
        with self.refused(quire.Code.INVALID_ARGUMENT):
            quire.Memory.bind(rig.device, rig.config, [])

    def test_a_tensor_for_ops(self):
        device = Rig().device
        array = np.arange(24, dtype=np.float32).reshape(4, 6)[:, ::2]
        taken = device.take(array)
        self.assertEqual((taken.address, taken.shape, taken.strides), (array.ctypes.data, (4, 3), (24, 8)))
        self.assertEqual(taken.numpy().ctypes.data, array.ctypes.data)
        gone = weakref.ref(array)
        del array
        self.assertIsNotNone(gone())
        del taken
        self.assertIsNone(gone())
        with self.refused(quire.Code.INVALID_ARGUMENT, "stride"):
            device.take(np.zeros(4)[::-1])
        with self.refused(quire.Code.PERMISSION_DENIED):
            device.take(np.broadcast_to(np.zeros(1), (4,)))
        self.assertEqual(device.take(np.broadcast_to(np.zeros(1), (4,)), read_only=True).strides, (0,))

    def test_a_capsule_that_nobody_takes_gives_its_tensor_back(self):
        rig = Rig()
        region = rig.config.regions()[0]
        buffer = aligned(region.bytes, region.alignment)
        gone = weakref.ref(buffer)
        memory = quire.Memory.bind(rig.device, rig.config, [buffer])
        capsules = [memory.tensor(0).__dlpack__(), memory.tensor(0).__dlpack__(max_version=(1, 1))]
        own = np.zeros(4, np.float32)
        gone_too = weakref.ref(own)
        capsules.append(rig.device.take(own).__dlpack__(max_version=(1, 0)))
        del memory, buffer, own
        self.assertIsNotNone(gone())
        self.assertIsNotNone(gone_too())
        capsules.clear()
        self.assertIsNone(gone())
        self.assertIsNone(gone_too())

    def test_another_package_gives_a_tensor_of_dlpack(self):
        class Old:  # a producer of DLPack 0.x, as torch 1 and 2 are
            def __init__(self, tensor):
                self.tensor = tensor

            def __dlpack__(self, stream=None):
                return self.tensor.__dlpack__()

        rig = Rig()
        other = rig.memory.tensor(0)
        self.assertEqual(rig.device.take(Old(other)).address, other.address)
        out = np.zeros((1, 1, 16, 2, 8), np.float32)
        other.numpy()[...] = 3
        rig.stream.copy(Old(rig.memory.tensor(0, kind="id", id=2)), out)
        rig.stream.synchronize()
        self.assertTrue((out == 3).all())


class Ops(Test):
    def test_attention_equals_its_definition(self):
        rig = Rig()
        rng = np.random.default_rng(1)
        want = rig.want(21, 2)
        step = rig.cache.reserve(want, symbols(42))
        group = rig.batch.fill(step)[0]
        rig.memory.prepare(step, rig.stream)
        query, key, value = (rng.standard_normal((42, heads, 8), np.float32) for heads in (4, 2, 2))
        out, lse = np.zeros((42, 4, 8), np.float32), np.zeros((42, 4), np.float32)
        rig.stream.kv_append(rig.memory.paged_kv(0), group, key, value)
        rig.stream.attention(rig.memory.paged_kv(0), group, query, out, lse=lse)
        rig.stream.synchronize()
        for row in range(2):
            tokens = slice(21 * row, 21 * row + 21)
            q, k, v = query[tokens], key[tokens].repeat(2, 1), value[tokens].repeat(2, 1)
            logits = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(8) + np.triu(np.full((21, 21), -np.inf), 1)
            weights = np.exp(logits - logits.max(-1, keepdims=True))
            expected = np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)
            np.testing.assert_allclose(out[tokens], expected, atol=1e-5)
            np.testing.assert_allclose(lse[tokens], np.log(np.exp(logits).sum(-1)).T, atol=1e-4)
        keys = rig.memory.tensor(0, kind="lowered").numpy()
        slots = group.slots[rig.config.place(0).column]
        np.testing.assert_array_equal(keys[slots // 16, slots % 16], key)  # where the slots say

    def test_the_gated_delta_rule_and_the_scan(self):
        layers = [quire.Layer(quire.LayerKind.STATE, state=(quire.StateTensor("fp32", (2, 4, 8)),))]
        rig = Rig(config(layers))
        step = rig.cache.reserve(rig.want(6), symbols(6))
        group = rig.batch.fill(step)[0]
        rig.memory.prepare(step, rig.stream)
        rng = np.random.default_rng(2)
        q, k = (rng.standard_normal((6, 1, 8), np.float32) for _ in range(2))
        v, out = rng.standard_normal((6, 2, 4), np.float32), np.zeros((6, 2, 4), np.float32)
        gate, beta = -rng.random((6, 2), np.float32), rng.random((6, 2), np.float32)
        rig.stream.gated_delta(rig.memory.paged_state(0), group, q, k, v, gate, beta, out, scale=1.0)
        rig.stream.synchronize()
        for head in range(2):
            state = np.zeros((8, 4))
            for i in range(6):
                state = state * np.exp(gate[i, head])
                state = state + beta[i, head] * np.outer(k[i, 0], v[i, head] - state.T @ k[i, 0])
                np.testing.assert_allclose(out[i, head], state.T @ q[i, 0], atol=1e-4)
        x, dt = rng.standard_normal((6, 2, 4), np.float32), rng.random((6, 2), np.float32)
        b, c = (rng.standard_normal((6, 1, 8), np.float32) for _ in range(2))
        a = -rng.random(2, np.float32)
        rig.stream.selective_scan(rig.memory.paged_state(0), group, x, dt, a, b, c, out)
        rig.stream.synchronize()
        for head in range(2):
            state = np.zeros((4, 8))
            for i in range(6):
                state = np.exp(dt[i, head] * a[head]) * state + dt[i, head] * np.outer(x[i, head], b[i, 0])
                np.testing.assert_allclose(out[i, head], state @ c[i, 0], atol=1e-4)


if __name__ == "__main__":
    unittest.main()
