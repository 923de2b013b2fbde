"""Both ways of DLPack: quire and torch take turns over the same pages.

The pages are bytes of torch that quire binds. What ops read and write is taken from torch, or made by quire and seen by torch. In every
other step torch writes keys, values and states into the pages through quire's tensors, and quire's attention reads them; in the steps
between it is the other way round. States of convolutions and recurrences pass from one to the other with every step: torch's side are
the functions of the modeling file itself.
"""
import torch

import quire
import ranks


def pages_of(config, shard):
    """Bytes of torch, one tensor for each region, as aligned as the plan wants them."""
    made = []
    for region in config.regions(shard):
        whole = torch.zeros(region.bytes + region.alignment, dtype=torch.uint8)
        begin = -whole.data_ptr() % region.alignment
        made.append(whole[begin:begin + region.bytes])
    return made


class Rank(ranks.Rank):
    """A rank whose ops are torch's in every other step."""

    steps = 0

    def bytes(self):
        pages = pages_of(self.config, self.shard)
        memory = quire.Memory.bind(self.device, self.config, pages, self.shard)
        assert [memory.region(i)[0] for i in range(len(pages))] == [tensor.data_ptr() for tensor in pages], 'a copy'
        return memory

    def fill(self, step):
        super().fill(step)
        self.steps += 1
        self.torch_writes = self.steps % 2 == 0

    def view(self, cache, item):
        """[lowered ids, tokens, heads, items], or [lowered ids, shape of the state]: the pages themselves."""
        return torch.from_dlpack(self.memory.tensor(cache.layer, cache.sub, kind='lowered', item=item))

    @staticmethod
    def bits(rows):
        """torch neither gathers nor scatters rows of 8-bit floats: the same as bytes."""
        return rows.view(torch.uint8) if rows.dtype.itemsize == 1 else rows

    def given(self, *tensors):
        """Tensors of torch as quire's, without a copy."""
        return [None if tensor is None else self.device.take(tensor.detach(), read_only=True) for tensor in tensors]

    def made(self, *shape):
        out = self.device.empty(shape, 'fp32')
        return out, torch.from_dlpack(out)

    def rows(self, group):
        """(row, its first token in the step, the one after its last)"""
        bounds = [int(at) for at in group.query_indptr]
        return zip(range(group.num_rows), bounds, bounds[1:])

    # ---- keys and values

    def append(self, cache, key, value):
        if not self.torch_writes:
            return super().append(cache, key, value)
        slots = torch.from_dlpack(self.group(cache).slots[self.config.place(cache.layer, cache.sub).column])
        kept = slots >= 0
        for item, rows in enumerate((key, value)):
            if rows is not None:
                pages = self.view(cache, item)
                self.bits(pages)[slots[kept] // pages.shape[1], slots[kept] % pages.shape[1]] = self.bits(rows[kept].to(pages.dtype))
        return None

    def attention(self, cache, query, width, options):
        if self.torch_writes:
            return super().attention(cache, query, width, options)
        self.stream.synchronize()
        group, out = self.group(cache), torch.zeros(*query.shape[:2], width)
        for row, begin, end in self.rows(group):
            if end > begin:
                out[begin:end] = self.attended(cache, group, row, query[begin:end], width, options)
        return out

    def attended(self, cache, group, row, query, width, options):
        """One row: query [tokens, heads, dim]. Gathers keys by the row's table and sees what the layer says."""
        column, length = self.config.place(cache.layer, cache.sub).column, int(group.kv_len[row])
        cross = cache.kind == quire.LayerKind.CROSS
        own = torch.arange(length - len(query), length)[:, None]
        first = 0
        if cache.kind == quire.LayerKind.SLIDING_WINDOW:
            first = max(length - len(query) - cache.window + 1, 0)
        if cache.kind == quire.LayerKind.CHUNKED:
            first = (length - len(query)) // cache.window * cache.window
        at = torch.arange(first, length)
        seen = torch.ones(len(query), len(at), dtype=torch.bool) if cross else at <= own
        if cache.kind == quire.LayerKind.SLIDING_WINDOW:
            seen &= at > own - cache.window
        if cache.kind == quire.LayerKind.CHUNKED:
            seen &= at // cache.window == own // cache.window
        key = self.gathered(cache, 0, group.table[column, row], at)
        value = key[..., :width] if cache.kind == quire.LayerKind.MLA else self.gathered(cache, 1, group.table[column, row], at)
        several = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(several, dim=1), value.repeat_interleave(several, dim=1)
        scores = torch.einsum('thd,khd->htk', query, key) * options['scale']
        if options['softcap']:
            scores = options['softcap'] * torch.tanh(scores / options['softcap'])
        scores = scores.masked_fill(~seen, -torch.inf)
        if options.get('sink_logits') is not None:  # a logit without a value
            sinks = torch.from_numpy(options['sink_logits'])[:, None, None].expand(-1, len(query), 1)
            scores = torch.cat((scores, sinks), dim=2)
        weights = torch.softmax(scores, dim=2)[..., :len(at)]
        return torch.einsum('htk,khd->thd', weights, value)

    def gathered(self, cache, item, table, at):
        pages = self.view(cache, item)
        ids = torch.from_dlpack(table)[at // pages.shape[1]].long()
        return self.bits(pages)[ids, at % pages.shape[1]].view(pages.dtype).float()

    # ---- states

    def recurrence(self, cache, item, compute):
        """Runs compute(first token, token after the last, state) from one state to be written to the next; the state changes in place."""
        column, group, pages = self.config.place(cache.layer, cache.sub).column, self.group(cache), self.view(cache, item)
        self.stream.synchronize()
        for row, begin, end in self.rows(group):
            source, length = int(group.state_read[column, row]), int(group.kv_len[row])
            state = torch.zeros(pages.shape[1:]) if source < 0 else pages[source].float().clone()
            if group.state_write_indptr is None:
                writes = [(end, int(group.state_write[column, row]))]
            else:
                mine = range(int(group.state_write_indptr[row]), int(group.state_write_indptr[row + 1]))
                writes = [(end - length + int(group.state_write_ends[i]), int(group.state_write[column, i])) for i in mine]
            at = begin
            for stop, destination in [*writes, (end, -1)]:
                if stop > at:
                    compute(at, stop, state)
                if destination >= 0:
                    pages[destination] = state.to(pages.dtype)
                at = stop

    def conv1d(self, cache, rows, weight, bias, activation):
        if not self.torch_writes:
            return super().conv1d(cache, rows, weight, bias, activation)
        out, update = torch.empty_like(rows), self.engine.modeling.causal_conv1d_update

        def compute(begin, end, state):  # [width - 1, channels]
            inputs = state.T[None].clone()
            out[begin:end] = update(rows[begin:end].T[None], inputs, weight, bias, activation)[0].T
            state.copy_(inputs[0].T)
        self.recurrence(cache, 0, compute)
        return out

    def gated_delta(self, cache, query, key, value, gate, beta, l2norm):
        if not self.torch_writes:
            return super().gated_delta(cache, query, key, value, gate, beta, l2norm)
        out, rule = torch.empty_like(value), self.engine.modeling.torch_recurrent_gated_delta_rule

        def compute(begin, end, state):  # [heads, dim_v, dim_k]; theirs is [heads, dim_k, dim_v]
            part, after = rule(*(tensor[None, begin:end] for tensor in (query, key, value, gate, beta)),
                               initial_state=state.transpose(1, 2)[None], output_final_state=True, use_qk_l2norm_in_kernel=l2norm)
            out[begin:end] = part[0]
            state.copy_(after[0].transpose(1, 2))
        self.recurrence(cache, 1, compute)
        return out

    def scan_heads(self, cache, x, dt, a, b, c, skip, dt_bias, softplus, limits):
        if not self.torch_writes:
            return super().scan_heads(cache, x, dt, a, b, c, skip, dt_bias, softplus, limits)
        out, scan = torch.empty_like(x), self.engine.kept[self.engine.modeling, 'mamba2_chunk_scan']

        def compute(begin, end, state):
            part, after = scan(*(tensor[None, begin:end] for tensor in (x, dt)), a, *(tensor[None, begin:end] for tensor in (b, c)),
                               chunk_size=16, D=skip, dt_bias=dt_bias, initial_states=state[None], dt_softplus=softplus, dt_limit=limits,
                               return_final_states=True)
            out[begin:end] = part[0]
            state.copy_(after[0])
        self.recurrence(cache, 1, compute)
        return out

    def scan_channels(self, cache, x, dt, a, b, c, skip, dt_bias, gate, softplus):
        if not self.torch_writes:
            return super().scan_channels(cache, x, dt, a, b, c, skip, dt_bias, gate, softplus)
        out, update = torch.empty_like(x), self.engine.modeling.mamba_selective_state_update

        def compute(begin, end, state):
            for t in range(begin, end):
                out[t] = update(state[None], x[t:t + 1], dt[t:t + 1], a, b[t:t + 1], c[t:t + 1], skip, dt_bias, softplus, gate[t:t + 1])[0]
        self.recurrence(cache, 1, compute)
        return out
