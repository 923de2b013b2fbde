#!/usr/bin/env python3
"""decode_peer.py make FOLDER: writes a random checkpoint in the shape of Qwen3-0.6B, as safetensors and GGUF, both bf16.
decode_peer.py transformers|llama.cpp FOLDER DEPTH THREADS [fill] [OPTION...]: another engine with the protocol of lm_decode: it computes
DEPTH tokens and says "ready"; every number N on a line asks for N tokens, and the seconds they took are the answer.

transformers takes the installed package. llama.cpp takes the Python bindings `llama_cpp`, whose library LLAMA_CPP_LIB_PATH may name.
fill: keys and values of the depth are not computed. transformers gets random ones; llama.cpp those of FILL computed tokens, repeated.
Options: bf16, fp32 (transformers: type of the weights), fa, no-fa, f16-cache, bf16-cache (llama.cpp).
"""
import ctypes
import json
import os
import struct
import sys
import time

SHAPE = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "attention_bias": False, "attention_dropout": 0.0, "head_dim": 128,
    "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
    "max_window_layers": 28, "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
    "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "use_cache": True, "use_sliding_window": False, "vocab_size": 151936}
FILL = 512  # tokens that llama.cpp computes before they are repeated
CHUNK = 512
ROOM = 4096


def tensors():
    """Name in safetensors, name in GGUF, shape."""
    c = SHAPE
    hidden, inner, width = c["hidden_size"], c["intermediate_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * width, c["num_key_value_heads"] * width
    yield "model.embed_tokens.weight", "token_embd.weight", (c["vocab_size"], hidden)
    for i in range(c["num_hidden_layers"]):
        ours, theirs = f"model.layers.{i}.", f"blk.{i}."
        yield ours + "input_layernorm.weight", theirs + "attn_norm.weight", (hidden,)
        yield ours + "self_attn.q_proj.weight", theirs + "attn_q.weight", (q, hidden)
        yield ours + "self_attn.k_proj.weight", theirs + "attn_k.weight", (kv, hidden)
        yield ours + "self_attn.v_proj.weight", theirs + "attn_v.weight", (kv, hidden)
        yield ours + "self_attn.o_proj.weight", theirs + "attn_output.weight", (hidden, q)
        yield ours + "self_attn.q_norm.weight", theirs + "attn_q_norm.weight", (width,)
        yield ours + "self_attn.k_norm.weight", theirs + "attn_k_norm.weight", (width,)
        yield ours + "post_attention_layernorm.weight", theirs + "ffn_norm.weight", (hidden,)
        yield ours + "mlp.gate_proj.weight", theirs + "ffn_gate.weight", (inner, hidden)
        yield ours + "mlp.up_proj.weight", theirs + "ffn_up.weight", (inner, hidden)
        yield ours + "mlp.down_proj.weight", theirs + "ffn_down.weight", (hidden, inner)
    yield "model.norm.weight", "output_norm.weight", (hidden,)


def make(folder):
    import gguf
    import torch
    from safetensors.torch import save_file
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    weights = {}
    writer = gguf.GGUFWriter(os.path.join(folder, "model.gguf"), "qwen3")
    c = SHAPE
    writer.add_context_length(c["max_position_embeddings"])
    writer.add_embedding_length(c["hidden_size"])
    writer.add_block_count(c["num_hidden_layers"])
    writer.add_feed_forward_length(c["intermediate_size"])
    writer.add_head_count(c["num_attention_heads"])
    writer.add_head_count_kv(c["num_key_value_heads"])
    writer.add_key_length(c["head_dim"])
    writer.add_value_length(c["head_dim"])
    writer.add_layer_norm_rms_eps(c["rms_norm_eps"])
    writer.add_rope_freq_base(c["rope_theta"])
    writer.add_vocab_size(c["vocab_size"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for ours, theirs, shape in tensors():
        if len(shape) == 1:
            weights[ours] = torch.ones(shape, dtype=torch.bfloat16)
            writer.add_tensor(theirs, weights[ours].float().numpy())
            continue
        weights[ours] = (torch.randn(shape) * c["initializer_range"]).bfloat16()
        writer.add_tensor(theirs, weights[ours].view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(SHAPE, file, indent=2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Transformers:
    def __init__(self, folder, depth, threads, fills, options):
        import torch
        import transformers
        self.torch = torch
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        kind = torch.float32 if "fp32" in options else torch.bfloat16
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=kind, attn_implementation="sdpa")
        self.model.eval()
        self.version = f"transformers {transformers.__version__}, torch {torch.__version__}"
        torch.manual_seed(2)
        config = self.model.config
        self.cache = None
        if fills:
            self.cache = transformers.DynamicCache(config=config)
            shape = (1, config.num_key_value_heads, depth, config.head_dim)
            for layer in range(config.num_hidden_layers):
                self.cache.update(torch.randn(shape, dtype=kind), torch.randn(shape, dtype=kind), layer)
            self.next = torch.tensor([[1]])
            return
        ids = torch.randint(0, config.vocab_size, (1, depth))
        for first in range(0, depth, CHUNK):
            self.step(ids[:, first:first + CHUNK])

    def step(self, ids):
        out = self.model(input_ids=ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1)
        self.cache = out.past_key_values
        self.next = out.logits[:, -1].argmax(-1, keepdim=True)

    def take(self, tokens):
        for _ in range(tokens):
            self.step(self.next)


class LlamaCpp:
    def __init__(self, folder, depth, threads, fills, options):
        import llama_cpp
        import numpy
        self.lib, self.numpy = llama_cpp, numpy
        llama_cpp.llama_backend_init()
        quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(quiet, None)
        self.quiet = quiet
        params = llama_cpp.llama_model_default_params()
        path = os.path.join(folder, "model.gguf").encode()
        self.model = llama_cpp.llama_model_load_from_file(path, params)
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = depth + ROOM, CHUNK, CHUNK
        params.n_seq_max = 1
        params.n_threads = params.n_threads_batch = threads
        params.flash_attn_type = 0 if "no-fa" in options else 1
        params.type_k = params.type_v = 30 if "bf16-cache" in options else 1  # GGML_TYPE_BF16, GGML_TYPE_F16
        self.context = llama_cpp.llama_init_from_model(self.model, params)
        if not self.context:
            raise RuntimeError("llama.cpp refused the context")
        self.words = SHAPE["vocab_size"]
        self.version = "llama.cpp, bindings " + llama_cpp.__version__ + ", " + llama_cpp.llama_print_system_info().decode()
        self.position = 0
        random = numpy.random.default_rng(2)
        computed = min(FILL, depth) if fills else depth
        ids = random.integers(0, self.words, computed).tolist()
        for first in range(0, computed, CHUNK):
            self.decode(ids[first:first + CHUNK])
        if computed < depth:
            self.repeat(computed, depth)
        self.next = 1

    def decode(self, ids):
        array = (self.lib.llama_token * len(ids))(*ids)
        if self.lib.llama_decode(self.context, self.lib.llama_batch_get_one(array, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")
        self.position += len(ids)

    def repeat(self, computed, depth):
        """Makes a state of `depth` positions out of that of the computed ones, whose rows repeat, and gives it to llama.cpp."""
        lib, numpy = self.lib, self.numpy
        size = lib.llama_state_seq_get_size(self.context, 0)
        state = numpy.zeros(size, numpy.uint8)
        view = ctypes.cast(state.ctypes.data, ctypes.POINTER(ctypes.c_uint8))
        if lib.llama_state_seq_get_data(self.context, view, size, 0) != size:
            raise RuntimeError("the state of a sequence has another size than announced")
        filled = numpy.empty(size // computed * depth + 4096, numpy.uint8)
        at = end = 0

        def write(values):
            nonlocal end
            filled[end:end + values.size] = values
            end += values.size

        def copy(form):
            nonlocal at
            values = struct.unpack_from("<" + form, state, at)
            write(state[at:at + struct.calcsize("<" + form)])
            at += struct.calcsize("<" + form)
            return values

        def repeat_rows(count, row):  # count rows of so many bytes for each of the computed positions
            nonlocal at
            found = state[at:at + count * computed * row].reshape(count, computed * row)
            at += found.size
            whole, rest = divmod(depth, computed)
            for line in found:
                for _ in range(whole):
                    write(line)
                write(line[:rest * row])

        copy("Ii")  # a number that marks states, the sequence
        if struct.unpack_from("<II", state, at) != (1, computed):
            raise RuntimeError("this version of llama.cpp lays out its state in another way")
        at += 8 + computed * 12
        write(numpy.frombuffer(struct.pack("<II", 1, depth), numpy.uint8))
        write(numpy.array([(p, 1, 0) for p in range(depth)], numpy.uint32).view(numpy.uint8).ravel())
        transposed, layers = copy("II")
        for _ in range(layers):
            repeat_rows(1, copy("iQ")[1])
        for _ in range(layers):
            if transposed:
                _, element, width = copy("iII")
                repeat_rows(width, element)
            else:
                repeat_rows(1, copy("iQ")[1])
        if at != size:
            raise RuntimeError(f"{size - at} bytes of the state were not understood")
        lib.llama_memory_clear(lib.llama_get_memory(self.context), True)
        view = ctypes.cast(filled.ctypes.data, ctypes.POINTER(ctypes.c_uint8))
        if lib.llama_state_seq_set_data(self.context, view, end, 0) != end:
            raise RuntimeError("llama.cpp refused the state")
        self.position = depth

    def take(self, tokens):
        for _ in range(tokens):
            self.decode([self.next])
            logits = self.lib.llama_get_logits_ith(self.context, -1)
            self.next = int(self.numpy.ctypeslib.as_array(logits, (self.words,)).argmax())


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "make":
        return make(sys.argv[2])
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    name, folder, depth, threads, *options = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print
    engine = {"transformers": Transformers, "llama.cpp": LlamaCpp}[name]
    engine = engine(folder, int(depth), int(threads), "fill" in options, options)
    print("ready", engine.version, file=answers, flush=True)
    for line in sys.stdin:
        begin = time.monotonic()
        engine.take(int(line))
        print(time.monotonic() - begin, file=answers, flush=True)


if __name__ == "__main__":
    main()
