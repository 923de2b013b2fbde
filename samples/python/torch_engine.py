"""An engine in PyTorch that writes its own attention over quire's views: a small transformer with
random weights, one full layer and one sliding window. quire says where keys and values of each
token lie; torch reads and writes them there, in bfloat16, without a copy.

Requests share a system prompt, which is computed once. At the end every request is computed again
without a cache, and compared.
"""
import sys

import numpy as np
import torch

import quire

VOCABULARY, WIDTH, HEADS, KV_HEADS, DIM, WINDOW = 512, 64, 4, 2, 16, 48
NEW_TOKENS = 12


class Layer(torch.nn.Module):
    """Attention and a feed-forward part; `window` tokens are seen, 0 = all."""

    def __init__(self, window: int) -> None:
        super().__init__()
        self.window = window
        self.query = torch.nn.Linear(WIDTH, HEADS * DIM, bias=False)
        self.key = torch.nn.Linear(WIDTH, KV_HEADS * DIM, bias=False)
        self.value = torch.nn.Linear(WIDTH, KV_HEADS * DIM, bias=False)
        self.out = torch.nn.Linear(HEADS * DIM, WIDTH, bias=False)
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH)

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        x = x + self.out(attended.flatten(1))
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


def attend(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, first: int, window: int) -> torch.Tensor:
    """query [n, heads, dim] at positions first, first + 1, ... over keys and values [length, kv
    heads, dim] from position 0 on.
    """
    position = torch.arange(first, first + len(query))[:, None]
    past = torch.arange(len(keys))[None, :]
    seen = (past <= position) & ((past > position - window) if window else True)
    keys, values = (rows.float().repeat_interleave(HEADS // KV_HEADS, dim=1) for rows in (keys, values))
    logits = torch.einsum("nhd,lhd->hnl", query, keys) / DIM**0.5
    return torch.einsum("hnl,lhd->nhd", logits.masked_fill(~seen, -torch.inf).softmax(-1), values)


class Engine(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.places = torch.nn.Embedding(1024, WIDTH)
        self.layers = torch.nn.ModuleList([Layer(0), Layer(WINDOW)])
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

        shape = {"num_q_heads": HEADS, "num_kv_heads": KV_HEADS, "head_dim_k": DIM, "head_dim_v": DIM, "dtype": torch.bfloat16}
        model = quire.Model([quire.Layer(quire.LayerKind.FULL, layer=0, **shape),
                             quire.Layer(quire.LayerKind.SLIDING_WINDOW, layer=1, window=WINDOW, **shape)], max_model_len=1024)
        self.config = quire.Config(model, memory_bytes="1MiB")
        runtime = quire.Runtime()
        self.cache = quire.Cache(self.config, runtime=runtime, max_sequences=16)
        device = quire.Device(runtime)
        self.stream = quire.Stream(device)
        self.memory = quire.Memory(device, self.config)
        self.batch = quire.Batch(self.config)
        # [lowered ids, tokens of a block, kv heads, dim]: the pages themselves.
        self.keys = [self.memory.tensor(i, item=0, kind="lowered").torch() for i in range(2)]
        self.values = [self.memory.tensor(i, item=1, kind="lowered").torch() for i in range(2)]

    @torch.inference_mode()
    def forward(self, step: quire.Step, symbols: torch.Tensor) -> torch.Tensor:
        """The most likely next symbol of every row. symbols: [tokens of the step]."""
        groups = self.batch.fill(step)
        self.memory.prepare(step, self.stream)
        self.stream.synchronize()
        x = self.embedding(symbols) + self.places(torch.from_numpy(groups[0].positions).long())
        for i, layer in enumerate(self.layers):
            place = self.config.place(i)
            group = groups[place.group]
            keys, values, block = self.keys[i], self.values[i], self.keys[i].shape[1]
            slots = torch.from_numpy(group.slots[place.column])
            keys[slots // block, slots % block] = layer.key(x).view(-1, KV_HEADS, DIM).bfloat16()
            values[slots // block, slots % block] = layer.value(x).view(-1, KV_HEADS, DIM).bfloat16()
            query = layer.query(x).view(-1, HEADS, DIM)
            attended = torch.empty_like(query)
            for row in range(group.num_rows):
                begin, end, length = group.query_indptr[row], group.query_indptr[row + 1], int(group.kv_len[row])
                ids = torch.from_numpy(group.table[place.column, row, :-(-length // block)]).long()
                own = slice(int(begin), int(end))
                attended[own] = attend(query[own], keys[ids].flatten(0, 1)[:length], values[ids].flatten(0, 1)[:length],
                                       length - int(end - begin), layer.window)
            x = layer.finish(x, attended)
        last = torch.from_numpy(groups[0].query_indptr[1:]).long() - 1
        return self.head(x[last]).argmax(-1)

    @torch.inference_mode()
    def without_cache(self, symbols: list[int]) -> int:
        """The same for one sequence, computed from its first symbol on."""
        x = self.embedding(torch.tensor(symbols)) + self.places(torch.arange(len(symbols)))
        for layer in self.layers:
            keys, values = (part(x).view(-1, KV_HEADS, DIM).bfloat16() for part in (layer.key, layer.value))
            x = layer.finish(x, attend(layer.query(x).view(-1, HEADS, DIM), keys, values, 0, layer.window))
        return int(self.head(x[-1]).argmax())


def serve(engine: Engine, prompts: list[list[int]]) -> list[list[int]]:
    """Computes prompts in one step, then decodes them together. Returns prompts with their answers.
    """
    count = len(prompts)
    want = quire.entries(count)
    want["sequence"] = [engine.cache.create_sequence() for _ in prompts]
    want["flags"] = quire.Entry.MATCH
    want["num_symbols"] = want["num_tokens"] = [len(prompt) for prompt in prompts]
    want["symbols_offset"] = np.cumsum(want["num_symbols"]) - want["num_symbols"]
    symbols = np.concatenate(prompts).astype(np.uint32)
    texts = [list(prompt) for prompt in prompts]
    for _ in range(NEW_TOKENS):
        with engine.cache.reserve(want, symbols) as step:
            got = step.check().results
            computed = [texts[i][int(row["position"]):int(row["position"] + row["num_tokens"])] for i, row in enumerate(got)]
            following = engine(step, torch.tensor([symbol for part in computed for symbol in part]))
            step.commit(following.numpy().astype(np.uint32))
        if want["flags"].any():
            print(f"{count} requests: {got['hit_tokens'].sum()} of {len(symbols)} prompt tokens found in the cache")
        for text, symbol in zip(texts, following.tolist()):
            text.append(symbol)
        want["flags"] = want["num_symbols"] = want["symbols_offset"] = 0
        want["num_tokens"] = 1
    for sequence in want["sequence"]:
        engine.cache.finish(int(sequence))
    return texts


def main() -> None:
    engine = Engine()
    rng = np.random.default_rng(0)
    system = rng.integers(0, VOCABULARY, 80).tolist()
    for tensors in (engine.keys, engine.values):
        for i, tensor in enumerate(tensors):
            address, size = engine.memory.region(0)
            assert address <= tensor.data_ptr() < address + size, f"layer {i} was copied"
    texts = serve(engine, [system + rng.integers(0, VOCABULARY, 20).tolist()])
    texts += serve(engine, [system + rng.integers(0, VOCABULARY, 5 * i + 1).tolist() for i in range(4)])
    wrong = 0
    for text in texts:
        for at in range(len(text) - NEW_TOKENS, len(text)):
            wrong += engine.without_cache(text[:at]) != text[at]
    print(f"{NEW_TOKENS * len(texts)} tokens computed again without a cache: {wrong} differ")
    engine.cache.verify()
    sys.exit(wrong != 0)


if __name__ == "__main__":
    try:
        main()
    except quire.Error as error:
        sys.exit(print(error) or 1)
