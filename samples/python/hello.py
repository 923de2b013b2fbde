"""Hello: a cache without a device. A prompt is computed, then asked for again: its full blocks are
found.
"""
import sys

import numpy as np

import quire


def serve(cache: quire.Cache, prompt: np.ndarray) -> int:
    """Computes a prompt and finishes its sequence, so that what it published can be found."""
    want = quire.entries(1)
    want["sequence"] = sequence = cache.create_sequence()
    want["num_symbols"] = want["num_tokens"] = len(prompt)
    want["flags"] = quire.Entry.MATCH | quire.Entry.PROMPT_END
    with cache.reserve(want, prompt) as step:
        got = step.check().results[0]
        # Here an engine runs its layers over the tokens from got["position"] on.
        ids = np.empty(8, np.int32)
        step.fill(quire.FillKind.RAW_TABLE, ids, pitch=8, fill_value=-1)
        blocks = " ".join(str(block) for block in ids if block >= 0)
        print(f"prompt of {len(prompt)} tokens: {got['hit_tokens']} reused, {got['num_tokens']} to compute, blocks {blocks}")
    cache.finish(sequence)  # the block above ended, so the step is committed
    return sequence


def main() -> None:
    layers = [quire.Layer(quire.LayerKind.FULL, layer=i, num_kv_heads=2, num_q_heads=4, head_dim_k=64, head_dim_v=64, dtype="bf16")
              for i in range(2)]
    config = quire.Config(quire.Model(layers, max_model_len=512), num_pages=33)  # with the null page
    cache = quire.Cache(config, runtime=quire.Runtime())
    print(f"plan: {config.info.num_groups} group, {config.info.num_pages} pages, blocks of {config.groups[0].block_tokens} tokens")
    prompt = np.arange(1000, 1040, dtype=np.uint32)
    serve(cache, prompt)
    serve(cache, prompt)
    prompt[20] = 7  # differs in the second block
    sequence = serve(cache, prompt)
    stats = cache.stats()
    print(f"reused {stats.hit_tokens} of {stats.matched_prompt_tokens} tokens; pages: {stats.pages_free} free, "
          f"{stats.pages_evictable} cached, {stats.pages_used} used")
    try:
        cache.finish(sequence)
    except quire.Error as error:
        print(f"finished twice: {error}")


if __name__ == "__main__":
    try:
        main()
    except quire.Error as error:
        sys.exit(print(error) or 1)
