"""PyTorch on the processor. scaled_dot_product_attention as models call it ("sdpa"); with the heads of a group as queries, which one
token allows and which shares the keys ("sdpa-folded"); and flex attention, which torch.compile turns into C++ ("flex")."""
import numpy
import torch
import torch.nn.functional as functional

TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def make(shape, inputs, threads, how):
    if shape.dtype not in TYPES:
        raise NotImplementedError(f"no attention over {shape.dtype}")
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    kind = TYPES[shape.dtype]
    # [1, heads, tokens, width]
    tensor = lambda values: torch.from_numpy(numpy.ascontiguousarray(values)).to(kind)[None]
    q = tensor(inputs.q)
    k = [tensor(inputs.k).clone() for _ in range(shape.copies())]
    v = [each[..., :shape.width_v] for each in k] if shape.latent else [tensor(inputs.v).clone() for _ in k]
    mask = torch.from_numpy(inputs.mask(shape)) if shape.queries > 1 else None
    grouped = shape.group > 1
    if how == "sdpa":
        attend = lambda i: functional.scaled_dot_product_attention(q, k[i], v[i], attn_mask=mask, scale=shape.scale, enable_gqa=grouped)
    elif how == "sdpa-folded":
        if shape.queries > 1 or shape.group == 1:
            raise NotImplementedError("only where one token has several heads for each key")
        folded = q.view(1, shape.kv_heads, shape.group, shape.width)
        attend = lambda i: functional.scaled_dot_product_attention(folded, k[i], v[i], scale=shape.scale)
    else:
        attend = flex(shape, q, k, v, grouped)
    out = attend(0).float().reshape(shape.heads, shape.queries, shape.width_v).numpy()
    return f"PyTorch {torch.__version__}", out, attend


def flex(shape, q, k, v, grouped):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    compiled = torch.compile(flex_attention)
    mask = None
    if shape.queries > 1:
        offset = shape.tokens - shape.queries
        mask = create_block_mask(lambda b, h, i, j: i + offset >= j, None, None, shape.queries, shape.tokens, device="cpu")
    return lambda i: compiled(q, k[i], v[i], block_mask=mask, scale=shape.scale, enable_gqa=grouped)
