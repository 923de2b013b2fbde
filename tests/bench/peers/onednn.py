"""oneDNN on the processor: scaled dot-product attention as a graph (product, scale, mask, softmax, product), through its C API.
DNNL_LIB names libdnnl.so, version 3; `pip install onednn` puts one into the environment's lib/, with what it needs beside it.
With one query token, the heads of a group are the queries of one product ("graph")."""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint8, c_void_p

import numpy

from inputs import from_bf16, to_bf16

F16, BF16, FLOAT = 1, 2, 3
TYPES = {"bf16": BF16, "fp16": F16}
ADD, MATMUL, MULTIPLY, SOFTMAX = 2, 39, 46, 64  # dnnl_graph_op_kind_t
AXIS, TRANSPOSE_B = 0x30, 0x66  # dnnl_graph_op_attr_t
STRIDED, FUSION, CPU = 2, 1, 1
DIMS = c_int64 * 12


class LogicalTensor(ctypes.Structure):
    _fields_ = [("id", c_size_t), ("ndims", c_int), ("dims", DIMS), ("dtype", c_int), ("property", c_int), ("layout", c_int), ("strides", DIMS)]


class Version(ctypes.Structure):
    _fields_ = [("major", c_int), ("minor", c_int), ("patch", c_int), ("hash", c_char_p), ("cpu_runtime", ctypes.c_uint), ("gpu_runtime", ctypes.c_uint)]


class Graph:
    """One partition over given tensors, compiled."""

    def __init__(self):
        if "DNNL_LIB" not in os.environ:
            raise RuntimeError("DNNL_LIB does not say where libdnnl.so is")
        self.lib = ctypes.CDLL(os.environ["DNNL_LIB"])
        self.lib.dnnl_version.restype = POINTER(Version)
        self.ids = 0
        self.engine, self.stream, self.graph = c_void_p(), c_void_p(), c_void_p()
        allocator = c_void_p()
        self.call("engine_create", byref(self.engine), CPU, c_size_t(0))
        self.call("stream_create", byref(self.stream), self.engine, 1)
        self.call("graph_graph_create", byref(self.graph), CPU)

    def call(self, name, *arguments):
        status = getattr(self.lib, "dnnl_" + name)(*arguments)
        if status != 0:
            raise RuntimeError(f"dnnl_{name}: status {status}")

    def tensor(self, dtype, extents, strides=None):
        if strides is None:
            strides = [int(numpy.prod(extents[i + 1:])) for i in range(len(extents))]
        made = LogicalTensor()
        self.ids += 1
        self.call("graph_logical_tensor_init_with_strides", byref(made), c_size_t(self.ids), dtype, len(extents), DIMS(*extents), DIMS(*strides), 0)
        return made

    def op(self, kind, inputs, output, **attributes):
        op = c_void_p()
        self.ids += 1
        self.call("graph_op_create", byref(op), c_size_t(self.ids), kind, f"op{self.ids}".encode())
        for tensor in inputs:
            self.call("graph_op_add_input", op, byref(tensor))
        self.call("graph_op_add_output", op, byref(output))
        if "axis" in attributes:
            self.call("graph_op_set_attr_s64", op, AXIS, byref(c_int64(attributes["axis"])), c_size_t(0))
        if "transpose_b" in attributes:
            self.call("graph_op_set_attr_bool", op, TRANSPOSE_B, byref(c_uint8(1)), c_size_t(1))
        self.call("graph_add_op", self.graph, op)
        return output

    def compile(self, inputs, output):
        self.call("graph_graph_finalize", self.graph)
        self.call("graph_graph_filter", self.graph, FUSION)
        count = c_size_t()
        self.call("graph_graph_get_partition_num", self.graph, byref(count))
        if count.value != 1:
            raise NotImplementedError(f"oneDNN makes {count.value} partitions of it")
        partition, self.compiled = c_void_p(), c_void_p()
        self.call("graph_graph_get_partitions", self.graph, c_size_t(1), byref(partition))
        self.call("graph_compiled_partition_create", byref(self.compiled), partition)
        ins = (POINTER(LogicalTensor) * len(inputs))(*[ctypes.pointer(t) for t in inputs])
        outs = (POINTER(LogicalTensor) * 1)(ctypes.pointer(output))
        self.call("graph_partition_compile", partition, self.compiled, c_size_t(len(inputs)), ins, c_size_t(1), outs, self.engine)

    def bound(self, logical, array):
        made = c_void_p()
        self.call("graph_tensor_create", byref(made), byref(logical), self.engine, c_void_p(array.ctypes.data))
        return made

    def execute(self, inputs, output):
        self.call("graph_compiled_partition_execute", self.compiled, self.stream, c_size_t(len(inputs)), inputs, c_size_t(1), output)
        self.call("stream_wait", self.stream)

    def version(self):
        got = self.lib.dnnl_version().contents
        return f"oneDNN {got.major}.{got.minor}.{got.patch}"


def make(shape, inputs, threads, how):
    """`threads`: the process may use no more processors than that, and oneDNN takes all."""
    if shape.dtype not in TYPES:
        raise NotImplementedError(f"no attention over {shape.dtype}")
    graph = Graph()
    kind = TYPES[shape.dtype]
    encode = to_bf16 if kind == BF16 else lambda values: values.astype(numpy.float16)
    tokens, width, width_v = shape.tokens, shape.width, shape.width_v
    # [1, kv_heads, group, queries, width] on [1, kv_heads, 1, tokens, width], or with the group as queries
    lead, kv_lead, rows = [1, shape.kv_heads, shape.group], [1, shape.kv_heads, 1], shape.queries
    if shape.queries == 1:
        lead, kv_lead, rows = [1, shape.kv_heads], [1, shape.kv_heads], shape.group
    q = graph.tensor(kind, [*lead, rows, width])
    k = graph.tensor(kind, [*kv_lead, tokens, width])
    scale = graph.tensor(kind, [1])
    strides = None
    if shape.latent:
        strides = [tokens * width] * len(kv_lead) + [width, 1]
    v = graph.tensor(kind, [*kv_lead, tokens, width_v], strides)
    out = graph.tensor(kind, [*lead, rows, width_v])
    score_extents = [*lead, rows, tokens]
    scores = graph.op(MATMUL, [q, k], graph.tensor(FLOAT, score_extents), transpose_b=True)
    scores = graph.op(MULTIPLY, [scores, scale], graph.tensor(FLOAT, score_extents))
    given = [q, k, scale]
    if shape.queries > 1:
        mask = graph.tensor(kind, [1] * len(lead) + [rows, tokens])
        given.append(mask)
        scores = graph.op(ADD, [scores, mask], graph.tensor(FLOAT, score_extents))
    weights = graph.op(SOFTMAX, [scores], graph.tensor(kind, score_extents), axis=-1)
    graph.op(MATMUL, [weights, v], out)
    given.append(v)
    graph.compile(given, out)

    result = numpy.zeros(shape.heads * shape.queries * width_v, dtype=numpy.uint16)
    arrays = [encode(inputs.q), encode(numpy.array([shape.scale], dtype=numpy.float32))]
    if shape.queries > 1:
        arrays.append(encode(numpy.where(inputs.mask(shape), 0, -numpy.inf).astype(numpy.float32)))
    keys, values = encode(inputs.k), None if shape.latent else encode(inputs.v)
    calls = []
    for _ in range(shape.copies()):
        mine = [keys.copy()] + ([] if shape.latent else [values.copy()])
        arrays += mine
        at = [arrays[0], mine[0], arrays[1], *arrays[2:3][:shape.queries > 1], mine[-1]]
        calls.append((c_void_p * len(given))(*[graph.bound(t, a) for t, a in zip(given, at)]))
    target = (c_void_p * 1)(graph.bound(out, result))

    def attend(i):
        graph.execute(calls[i], target)

    attend.keep = arrays, result  # tensors hold addresses
    attend(0)
    got = from_bf16(result) if kind == BF16 else result.view(numpy.float16).astype(numpy.float32)
    return graph.version(), got.reshape(shape.heads, shape.queries, width_v), attend
