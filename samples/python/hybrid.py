"""A hybrid model: recurrent layers keep one state per sequence, so a prompt resumes only where a
state was kept.
"""
import json
import sys

import numpy as np

import quire

CONFIG = json.dumps({
    "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4, "hidden_size": 256,
    "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_value_head_dim": 16,
    "max_position_embeddings": 1024, "torch_dtype": "bfloat16",
})
MISSES = {
    quire.Miss.NONE: "complete", quire.Miss.UNKNOWN_PREFIX: "unknown prefix", quire.Miss.EVICTED: "evicted",
    quire.Miss.NO_STATE: "no state kept there", quire.Miss.WINDOW_HOLE: "window hole", quire.Miss.BELOW_UNIT: "shorter than one unit",
    quire.Miss.DISABLED: "disabled",
}


def serve(cache: quire.Cache, name: str, salt: str, prompt: np.ndarray) -> None:
    """Serves a prompt, chunk by chunk: a chunk ends where a state is worth keeping."""
    want = quire.entries(1)
    want["sequence"] = sequence = cache.create_sequence(salt=salt)
    want["flags"] = quire.Entry.MATCH | quire.Entry.PROMPT_END
    at, chunks = 0, []
    while at < len(prompt):
        want["symbols_position"] = want["symbols_offset"] = at
        want["num_symbols"] = want["num_tokens"] = len(prompt) - at
        with cache.reserve(want, prompt) as step:
            got = step.check().results[0]
        if not chunks:
            chunks = [f"{name}: {got['hit_tokens']} of {len(prompt)} tokens reused, attention alone {got['full_hit_tokens']}: "
                      f"{MISSES[quire.Miss(got['miss'])]}; chunks"]
        want["flags"] = quire.Entry.PROMPT_END
        at = int(got["position"] + got["num_tokens"])
        chunks.append(f"{got['position']}..{at}")
    print(*chunks)
    cache.finish(sequence)


def main() -> None:
    runtime = quire.Runtime()
    config = quire.Config(quire.Model.from_json(CONFIG), num_pages=101)
    cache = quire.Cache(config, runtime=runtime)
    for group in config.groups:
        kind = "states" if group.is_state else "attention"
        print(f"group {group.group}: {kind}, layers {group.num_caches}, blocks of {group.block_tokens} tokens")
    prompt = np.arange(1000, 1300, dtype=np.uint32)
    serve(cache, "first", "", prompt)
    serve(cache, "again", "", prompt)
    prompt[250] = 7  # another question about the same document
    serve(cache, "parts at 250", "", prompt)
    prompt[250] = 8  # a state is kept there now
    serve(cache, "parts there too", "", prompt)
    serve(cache, "other salt", "tenant 2", prompt)
    cache.verify()


if __name__ == "__main__":
    try:
        main()
    except quire.Error as error:
        sys.exit(print(error) or 1)
