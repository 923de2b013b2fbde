"""ggml on the processor, through its C API. GGML_LIB names the folder of libggml.so, libggml-base.so and libggml-cpu.so, built elsewhere
(cmake -DBUILD_SHARED_LIBS=ON -DCMAKE_BUILD_TYPE=Release). "flash": ggml_flash_attn_ext. "products": two products and a softmax, with the
values transposed, which is what llama.cpp does without flash attention."""
import ctypes
import os
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

import numpy

from inputs import to_bf16

F32, F16, Q8_0, BF16 = 0, 1, 8, 30
TYPES = {"bf16": BF16, "fp16": F16, "int8": Q8_0}


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p), ("no_alloc", c_bool)]


class Library:
    """The functions that are used, with their types."""

    def __init__(self, folder):
        load = lambda name: ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
        base, cpu = load("libggml-base.so"), load("libggml-cpu.so")
        p = c_void_p
        declare = lambda library, name, result, *arguments: setattr(self, name, self.declared(library, "ggml_" + name, result, arguments))
        declare(base, "version", c_char_p)
        declare(base, "commit", c_char_p)
        declare(base, "init", p, InitParams)
        declare(base, "new_tensor_4d", p, p, c_int, c_int64, c_int64, c_int64, c_int64)
        declare(base, "view_3d", p, p, p, c_int64, c_int64, c_int64, c_size_t, c_size_t, c_size_t)
        declare(base, "flash_attn_ext", p, p, p, p, p, p, c_float, c_float, c_float)
        declare(base, "mul_mat", p, p, p, p)
        declare(base, "soft_max_ext", p, p, p, p, c_float, c_float)
        declare(base, "new_graph", p, p)
        declare(base, "build_forward_expand", None, p, p)
        declare(base, "row_size", c_size_t, c_int, c_int64)
        declare(base, "quantize_chunk", c_size_t, c_int, POINTER(c_float), p, c_int64, c_int64, c_int64, p)
        declare(base, "backend_alloc_ctx_tensors", p, p, p)
        declare(base, "backend_tensor_set", None, p, p, c_size_t, c_size_t)
        declare(base, "backend_tensor_get", None, p, p, c_size_t, c_size_t)
        declare(base, "backend_graph_compute", c_int, p, p)
        declare(cpu, "backend_cpu_init", p)
        declare(cpu, "backend_cpu_set_n_threads", None, p, c_int)

    @staticmethod
    def declared(library, name, result, arguments):
        function = getattr(library, name)
        function.restype, function.argtypes = result, list(arguments)
        return function


class Attention:
    def __init__(self, shape, threads, how):
        if "GGML_LIB" not in os.environ:
            raise RuntimeError("GGML_LIB does not say where libggml.so is")
        self.shape, self.how = shape, how
        self.lib = Library(os.environ["GGML_LIB"])
        self.kind = TYPES[shape.dtype]
        self.backend = self.lib.backend_cpu_init()
        self.lib.backend_cpu_set_n_threads(self.backend, threads)
        self.context = self.lib.init(InitParams(256 << 20, None, True))
        self.q = self.tensor(F32, shape.width, shape.queries, shape.heads)
        self.mask = self.tensor(F16, shape.tokens, shape.queries, 1) if shape.queries > 1 else None
        self.caches = [self.cache() for _ in range(shape.copies())]
        built = [self.graph(k, v) for k, v in self.caches]
        self.graphs = [graph for graph, _ in built]
        self.outs = [out for _, out in built]
        if not self.lib.backend_alloc_ctx_tensors(self.context, self.backend):
            raise MemoryError("ggml could not allocate the tensors")

    def tensor(self, kind, *extents):
        return self.lib.new_tensor_4d(self.context, kind, *extents, 1)

    def cache(self):
        shape = self.shape
        k = self.tensor(self.kind, shape.width, shape.tokens, shape.kv_heads)
        if shape.latent:
            pitch = self.lib.row_size(self.kind, shape.width)
            return k, self.lib.view_3d(self.context, k, shape.width_v, shape.tokens, 1, pitch, pitch * shape.tokens, 0)
        if self.how == "products":
            return k, self.tensor(self.kind, shape.tokens, shape.width_v, shape.kv_heads)
        return k, self.tensor(self.kind, shape.width_v, shape.tokens, shape.kv_heads)

    def graph(self, k, v):
        lib, context = self.lib, self.context
        if self.how == "flash":
            out = lib.flash_attn_ext(context, self.q, k, v, self.mask, self.shape.scale, 0.0, 0.0)
        else:
            scores = lib.soft_max_ext(context, lib.mul_mat(context, k, self.q), self.mask, self.shape.scale, 0.0)
            out = lib.mul_mat(context, v, scores)
        graph = lib.new_graph(context)
        lib.build_forward_expand(graph, out)
        return graph, out

    def encoded(self, values):
        """Rows of fp32 as the bytes of the cache's type."""
        values = numpy.ascontiguousarray(values, dtype=numpy.float32)
        if self.kind == BF16:
            return to_bf16(values)
        if self.kind == F16:
            return values.astype(numpy.float16)
        width, rows = values.shape[-1], values.size // values.shape[-1]
        codes = numpy.empty(rows * self.lib.row_size(self.kind, width), dtype=numpy.uint8)
        self.lib.quantize_chunk(self.kind, values.ctypes.data_as(POINTER(c_float)), codes.ctypes.data, 0, rows, width, None)
        return codes

    def write(self, tensor, array):
        array = numpy.ascontiguousarray(array)
        self.lib.backend_tensor_set(tensor, array.ctypes.data, 0, array.nbytes)

    def fill(self, inputs):
        self.write(self.q, inputs.q)
        if self.mask:
            self.write(self.mask, numpy.where(inputs.mask(self.shape), 0, -numpy.inf).astype(numpy.float16))
        k = self.encoded(inputs.k)
        v = self.encoded(inputs.v.transpose(0, 2, 1) if self.how == "products" else inputs.v)
        for keys, values in self.caches:
            self.write(keys, k)
            if not self.shape.latent:
                self.write(values, v)

    def attend(self, i):
        status = self.lib.backend_graph_compute(self.backend, self.graphs[i])
        if status != 0:
            raise RuntimeError(f"ggml_backend_graph_compute: {status}")

    def out(self):
        """[heads, queries, width_v]; ggml_flash_attn_ext puts queries before heads."""
        shape = self.shape
        flash = self.how == "flash"
        got = numpy.empty((shape.queries, shape.heads, shape.width_v) if flash else (shape.heads, shape.queries, shape.width_v), numpy.float32)
        self.lib.backend_tensor_get(self.outs[0], got.ctypes.data, 0, got.nbytes)
        return got.transpose(1, 0, 2) if flash else got


def make(shape, inputs, threads, how):
    if how == "products" and shape.latent:
        raise NotImplementedError("llama.cpp copies the values of latent attention for it at each step")
    attention = Attention(shape, threads, how)
    attention.fill(inputs)
    attention.attend(0)
    version = f"ggml {attention.lib.version().decode()} ({attention.lib.commit().decode()})"
    return version, attention.out(), attention.attend
