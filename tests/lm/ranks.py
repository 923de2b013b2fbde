"""The ranks of an engine: the bytes of a shard, what its kernels read of a step, and quire's ops over both.

Rank computes with the driver's ops. Follower does so in a process of its own, as far as it can know: it has its own runtime and plan, and
learns of a step what the leader's cache exported. The Python package leaves followers to C, so they are called through cffi.
"""
import numpy
import torch

import quire
from quire._cache import cache_options_struct
from quire._core import Serial, call, ffi, lib

LATE = 30  # tokens of a sequence from which on a fault shows


class Whole:
    """What the ranks computed, put together: [tokens, heads or channels, ...]. NaN where two computed the same heads and their bits differ."""

    def __init__(self, *shape):
        self.sum, self.there = torch.zeros(shape), torch.zeros(shape[1], dtype=torch.bool)

    def add(self, at, part):
        numbers = torch.arange(self.sum.shape[1])[at]
        again = self.there[numbers]
        self.sum[:, numbers[~again]] += part[:, ~again]
        if not torch.equal(self.sum[:, numbers[again]], part[:, again]):
            self.sum[:, numbers[again]] = torch.nan
        self.there[numbers] = True


class Rank:
    """One rank of a plan."""

    in_place = on_the_way = 0  # states, of all steps

    def __init__(self, engine, shard):
        self.engine, self.shard, self.of = engine, shard, engine.tensor_parallel
        self.config = engine.config
        self.open(quire.Device(engine.runtime))

    def open(self, device):
        self.device, self.stream = device, quire.Stream(device)
        self.memory, self.batch = self.bytes(), quire.Batch(self.config, self.shard)
        self.memory.poison(self.stream)  # what nobody wrote is NaN

    def bytes(self):
        return quire.Memory(self.device, self.config, self.shard)

    def fill(self, step):
        self.batch.fill(step)
        self.memory.prepare(step, self.stream)
        self.stream.synchronize()
        for group in self.batch:
            if group.state_read is not None:
                self.count_states(group)

    def count_states(self, group):
        """States that are written over what they were read from, and those that rows longer than drafts write on their way."""
        bounds = group.state_write_indptr
        written = group.state_write if bounds is None else group.state_write[:, bounds[1:] - 1]
        self.in_place += int(((written == group.state_read) & (written >= 0)).sum())
        if bounds is not None:
            longer = numpy.diff(group.query_indptr) > self.engine.limits['num_state_branches'] + 1
            self.on_the_way += int((numpy.diff(bounds)[longer] - 1).sum())

    def spoil(self):
        """Every long row begins with a block, or a state, that is not its own."""
        for group in self.batch:
            late = group.positions[group.query_indptr[1:] - 1] >= LATE
            if group.table is not None and group.table.shape[2] > 1:
                group.table[:, late, 0] = group.table[:, late, 1]
            if group.state_read is not None:
                group.state_read[:, late] = -1

    # ---- its part of a model

    def share(self, count):
        """Of query heads, value heads, channels of a scan: an equal share. Of key heads and groups: one where ranks are more than these."""
        first = self.shard * count // self.of
        return slice(first, max((self.shard + 1) * count // self.of, first + 1))

    def heads(self, cache):
        """KV heads, as the plan says."""
        view = self.config.kv_view(cache.layer, cache.sub, self.shard)
        return slice(view.first_head, view.first_head + view.num_heads)

    def channels(self, cache):
        """Of a convolution, as the plan says: a share of each of its parts (q|k|v, x|B|C)."""
        view = self.config.state_view(cache.layer, cache.sub, 0, self.shard)
        if view.shard_dim == 0:
            return torch.arange(view.shape[1])
        parts = [(count, repeats or 1) for count, repeats in zip(view.shard_parts, view.shard_repeats) if count]
        numbers, begin = [], 0
        for count, repeats in parts or [(view.shape[1] * view.num_ranks, 1)]:
            groups = max(view.num_ranks // repeats, 1)  # of adjacent ranks that have the same
            each = count // repeats // groups
            numbers.append(begin + each * (view.rank // repeats) + torch.arange(each))
            begin += count // repeats
        assert sum(map(len, numbers)) == view.shape[1], 'the plan keeps another number of channels'
        return torch.cat(numbers)

    # ---- ops

    def group(self, cache):
        return self.batch[self.config.place(cache.layer, cache.sub).group]

    def state(self, cache, tensor):
        return self.memory.paged_state(cache.layer, cache.sub, tensor), self.group(cache)

    def given(self, *tensors):
        """What ops are given."""
        return tensors

    def made(self, *shape):
        """Where an op writes to, and the same as torch sees it."""
        out = torch.empty(shape)
        return out, out

    def append(self, cache, key, value):
        self.stream.kv_append(self.memory.paged_kv(cache.layer, cache.sub), self.group(cache), *self.given(key, value))

    def attention(self, cache, query, width, options):
        out, seen = self.made(*query.shape[:2], width)
        self.stream.attention(self.memory.paged_kv(cache.layer, cache.sub), self.group(cache), *self.given(query), out, **options)
        self.stream.synchronize()
        return seen

    def conv1d(self, cache, rows, weight, bias, activation):
        out, seen = self.made(*rows.shape)
        rows, weight, bias = self.given(rows, weight, bias)
        self.stream.conv1d(*self.state(cache, 0), rows, weight, out, bias=bias, silu=activation == 'silu')
        self.stream.synchronize()
        return seen

    def gated_delta(self, cache, query, key, value, gate, beta, l2norm):
        out, seen = self.made(*value.shape)
        self.stream.gated_delta(*self.state(cache, 1), *self.given(query, key, value, gate, beta), out, l2norm=l2norm)
        self.stream.synchronize()
        return seen

    def scan_heads(self, cache, x, dt, a, b, c, skip, dt_bias, softplus, limits):
        """Mamba-2. x [tokens, heads, dim]; b, c [tokens, groups, states]"""
        out, seen = self.made(*x.shape)
        x, dt, a, b, c, skip, dt_bias = self.given(x, dt, a, b, c, skip, dt_bias)
        self.stream.selective_scan(*self.state(cache, 1), x, dt, a, b, c, out, skip=skip, dt_bias=dt_bias, softplus=softplus,
                                   dt_min=limits[0], dt_max=0.0 if limits[1] == float('inf') else limits[1])
        self.stream.synchronize()
        return seen

    def scan_channels(self, cache, x, dt, a, b, c, skip, dt_bias, gate, softplus):
        """Mamba-1: heads of one channel. x, dt, gate [tokens, channels]; b, c [tokens, states]"""
        out, seen = self.made(*x.shape, 1)
        x, dt, a, b, c, skip, dt_bias, gate = self.given(x[:, :, None], dt, a, b[:, None], c[:, None], skip, dt_bias, gate[:, :, None])
        self.stream.selective_scan(*self.state(cache, 1), x, dt, a, b, c, out, skip=skip, dt_bias=dt_bias, z=gate, softplus=softplus)
        self.stream.synchronize()
        return seen[:, :, 0]


class Imported:
    """A step that a follower took over: what Batch.fill and Memory.prepare ask of a Step."""

    def __init__(self, follower, value):
        self._cache, self._value = follower, value

    def _in_flight(self):
        return self._value[0]


class Follower(Rank):
    """A rank that makes no steps of its own."""

    def __init__(self, engine, shard):
        self.engine, self.shard, self.of = engine, shard, engine.tensor_parallel
        self.config = engine.plan()
        options, kept = cache_options_struct(**engine.limits)
        out = ffi.new('quire_follower **')
        call(lib.quire_follower_create, self.config._pointer, options, out)
        del kept
        self.handle, self._serial = ffi.gc(out[0], lib.quire_follower_release), Serial('follower')
        self.open(quire.Device(quire.Runtime()))

    def fill(self, step):
        exported, taken = step.export(), ffi.new('quire_step *')
        call(lib.quire_follower_import, self.handle, ffi.from_buffer('uint8_t[]', exported), len(exported), taken)
        assert taken.id == step.id
        super().fill(Imported(self, taken))
