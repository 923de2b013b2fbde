#!/usr/bin/env python3
"""parity.py [FAMILY...]: transformers over quire's caches against the recorded logits, case by case.

The modeling files are transformers' own; attention, convolutions and state functions are quire's (replaced.py). Each case computes the recorded
sequences in its own way: chunks, batches, prefix hits, forks, preemption, aborts, drafts. Every row is compared: relative L2 at most three
times the error of the class itself in float32 (1e-6 where that is less), at most 2e-2 with a cache of bf16, and the same first choice
wherever its margin exceeds the error. One wrong block or state on purpose must be seen. QUIRE_LIBRARY names the library.
"""
import argparse
import os
import sys

import record  # skips where torch or transformers is missing
import families
import numpy
import torch
from safetensors.torch import load_file

import quire
import replaced

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'golden', 'data', 'lm')
MATCH = quire.Entry.MATCH


class Row:
    """A request: its tokens, and the logits that were computed."""

    def __init__(self, engine, tokens, want, salt, sequence=None, at=0, match=True):
        self.tokens, self.want = tokens, want
        self.sequence = engine.cache.create_sequence(salt=salt) if sequence is None else sequence
        self.first, self.at, self.hit, self.encoder_tokens = match, at, 0, engine.encoder_tokens
        self.got = torch.full(want.shape, torch.nan, dtype=torch.float64)

    @property
    def left(self):
        return len(self.tokens) - self.at


def entries(rows, chunk, match=True):
    """What a step is asked for: `chunk` tokens of each row, with all symbols that the cache does not know."""
    asked = quire.entries(len(rows))
    for entry, row in zip(asked, rows):
        entry['sequence'], entry['num_tokens'] = row.sequence, min(chunk, row.left)
        entry['symbols_position'], entry['num_symbols'] = row.at, row.left
        entry['flags'] = MATCH if row.first and match else 0
        entry['encoder_tokens'] = row.encoder_tokens if row.first else 0
    asked['symbols_offset'] = numpy.cumsum(asked['num_symbols']) - asked['num_symbols']
    return asked, numpy.concatenate([row.tokens[row.at:] for row in rows])


def tokens_of(step, rows):
    return numpy.concatenate([row.tokens[int(got['position']):int(got['position'] + got['num_tokens'])]
                              for row, got in zip(rows, step.results)])


def computed(engine, step, rows):
    """Runs a step; its rows have their logits."""
    logits, begin = engine.run(step, tokens_of(step, rows)), 0
    for row, got in zip(rows, step.results):
        count, at = int(got['num_tokens']), int(got['position'])
        row.hit += int(got['hit_tokens'])
        row.got[at:at + count] = logits[begin:begin + count]
        row.at, row.first = at + count, False
        begin += count


def advance(engine, rows, chunk):
    step = engine.cache.reserve(*entries(rows, chunk)).check()
    computed(engine, step, rows)
    step.commit()
    engine.cache.verify()


def finish(engine, rows, chunk):
    while any(row.left for row in rows):
        advance(engine, [row for row in rows if row.left], chunk)
    for row in rows:
        engine.cache.finish(row.sequence)


class Cases:
    """Each returns its rows; what a row has not computed itself was hit."""

    def __init__(self, engine, small, kept, cross):
        self.engine, self.small, self.kept, self.cross = engine, small, kept, cross

    def row(self, i, salt, **more):
        return Row(self.engine, self.kept[f'tokens.{i}'].numpy().astype(numpy.uint32), self.kept[f'logits.{i}'].double(), salt, **more)

    def each(self, salt, chunk):
        rows = []
        for i in range(3):
            rows.append(self.row(i, f'{salt} {i}'))
            self.engine.encoder = self.kept.get(f'encoder.{i}')
            finish(self.engine, rows[-1:], chunk)
        return rows

    def whole(self):
        return self.each('whole', 1000)

    def chunks(self):
        return self.each('chunks', 7)

    def decode(self):
        return self.each('decode', 1)

    def batch(self):
        rows = [self.row(i, f'batch {i}') for i in range(3)]
        finish(self.engine, rows, 5)
        return rows

    def hits(self):
        """The second and the third sharer of a prefix, and the same prompt again."""
        rows = [self.row(i, 'hits') for i in (0, 1, 1, 0)]
        for row in rows:
            finish(self.engine, [row], 16)
        assert rows[0].hit == 0 and all(row.hit > 0 for row in rows[2:]), [row.hit for row in rows]
        return rows

    def fork(self):
        parent = self.row(0, 'fork')
        parent.tokens, whole = parent.tokens[:record.SHARED], parent.tokens
        while parent.left:
            advance(self.engine, [parent], 13)
        parent.tokens = whole
        child = self.row(1, '', sequence=self.engine.cache.fork(parent.sequence), at=parent.at, match=False)
        finish(self.engine, [parent, child], 3)
        return [parent, child]

    def preempt(self):
        rows = [self.row(2, 'preempt'), self.row(0, 'preempt')]
        for _ in range(3):
            advance(self.engine, rows, 9)
        self.engine.cache.preempt(rows[0].sequence)
        rows[0].at, rows[0].first = 0, True
        finish(self.engine, rows, 11)
        return rows

    def abort(self):
        row = self.row(2, 'abort')
        while row.left:
            step = self.engine.cache.reserve(*entries([row], 6)).check()
            self.engine.run(step, tokens_of(step, [row]))
            step.abort()
            advance(self.engine, [row], 6)
        self.engine.cache.finish(row.sequence)
        return [row]

    def in_flight(self):
        """The next step is reserved and run before the last one is committed."""
        rows, before = [self.row(i, f'in flight {i}') for i in (2, 0)], None
        while any(row.left for row in rows):
            left = [row for row in rows if row.left]
            step = self.engine.cache.reserve(*entries(left, 8)).check()
            computed(self.engine, step, left)
            if before is not None:
                before.commit()
            before = step
        before.commit()
        for row in rows:
            self.engine.cache.finish(row.sequence)
        return rows

    def small_pool(self):
        """Three requests in a full pool. Who is refused waits; if it is the oldest, the youngest is preempted, or others end."""
        engine, refused, ballast = self.small, 0, []
        while True:  # sequences that only take room: nobody computes them, and nobody has their salt
            ballast.append(Row(engine, self.kept['tokens.2'].numpy().astype(numpy.uint32), self.kept['logits.2'], f'ballast {len(ballast)}'))
            step = engine.cache.reserve(*entries(ballast[-1:], 1000))
            if not step:
                break
            step.commit()
        rows = [Row(engine, self.kept[f'tokens.{i}'].numpy().astype(numpy.uint32), self.kept[f'logits.{i}'].double(), f'small {i}')
                for i in range(3)]
        while any(row.left for row in rows):
            left = [row for row in rows if row.left]
            for row in left:
                step = engine.cache.reserve(*entries([row], 16))
                if step:
                    computed(engine, step, [row])
                    step.commit()
                    if not row.left:
                        engine.cache.finish(row.sequence)
                    continue
                refused += 1
                youngest = next((other for other in reversed(left) if other is not row and 0 < other.at < len(other.tokens)), None)
                if row is not left[0]:
                    continue
                if youngest is not None:
                    engine.cache.preempt(youngest.sequence)
                    youngest.at, youngest.first = 0, True
                else:
                    engine.cache.finish(ballast.pop().sequence)
                break  # the oldest takes what became free
            engine.cache.verify()
        assert refused > 0, 'nobody was refused'
        for row in ballast:
            engine.cache.finish(row.sequence)
        return rows

    def drafts(self):
        """After 20 tokens, steps of four tokens of which 1, 2, 3, 4, 1, ... are right."""
        row, right = self.row(0, 'drafts'), 0
        row.tokens, whole = row.tokens[:20], row.tokens
        while row.left:
            advance(self.engine, [row], 20)
        row.tokens = whole
        while row.left > 4:
            asked, known = quire.entries(1), row.tokens[row.at:row.at + 1]
            asked['sequence'], asked['num_tokens'] = row.sequence, 4
            if right == 0:  # later ones are known by the commit before
                asked['symbols_position'], asked['num_symbols'] = row.at, 1
            right = right % 4 + 1
            step = self.engine.cache.reserve(asked, known).check()
            proposed = row.tokens[row.at:row.at + 4].copy()
            proposed[right:] = (proposed[right:] + 7) % 64
            row.got[row.at:row.at + right] = self.engine.run(step, proposed)[:right]
            follow = row.tokens[row.at + 1:row.at + right + 1]
            outcome = quire.outcomes(1)
            outcome['sequence'], outcome['num_accepted'] = row.sequence, right
            outcome['symbols_position'], outcome['num_symbols'] = row.at + 1, len(follow)
            step.commit_rows(outcome, follow)
            self.engine.cache.verify()
            row.at += right
        self.engine.cache.finish(row.sequence)
        return [row]

    def fault(self):
        """A row whose first block, or state, is another's from its 30th token on."""
        row = self.row(2, 'fault')
        while row.left:
            self.engine.fault = row.at >= 30
            advance(self.engine, [row], 10)
        self.engine.fault = False
        self.engine.cache.finish(row.sequence)
        return [row]

    def names(self):
        alone = ['whole', 'chunks', 'decode']
        return [*alone, 'fault'] if self.cross else [*alone, 'batch', 'hits', 'fork', 'preempt', 'abort', 'in_flight', 'small_pool', 'drafts',
                                                     'fault']


def compare(rows, limit):
    """Rows that were computed: the worst relative L2 over a sequence, and how many first choices differ that must not."""
    worst, differ, count = 0.0, 0, 0
    for row in rows:
        own = ~torch.isnan(row.got).all(dim=1)
        got, want = row.got[own], row.want[own]
        assert len(got) and not torch.isnan(got).any(), 'NaN: something that nobody wrote was read'
        worst = max(worst, record.relative(got, want))
        top = want.topk(2, dim=1)
        clear = top.values[:, 0] - top.values[:, 1] > 2 * (got - want).abs().max(dim=1).values
        differ += int((clear & (got.argmax(dim=1) != top.indices[:, 0])).sum())
        count += len(got)
    return worst, differ, count


def family_cases(family, dtype):
    folder = os.path.join(KEPT, family.name)
    kept = load_file(os.path.join(folder, 'expected.safetensors'))
    own = float(record.metadata_of(os.path.join(folder, 'expected.safetensors'))['fp32_error'])
    limit = max(3 * own, 1e-6) if dtype == torch.float32 else 2e-2
    cross = 'encoder.0' in kept
    model = replaced.prepared(record.opened(family, folder, torch.float32))
    problems, shown = [], []
    limits = {} if cross else {'num_state_branches': 3}
    with replaced.closing(replaced.Engine(family, model, folder, dtype, **limits)) as engine, \
            replaced.closing(replaced.Engine(family, model, folder, dtype, pages=0, max_sequences=64)) as small:
        cases = Cases(engine, small, kept, cross)
        for name in cases.names():
            engine.encoder = kept.get('encoder.2')
            worst, differ, count = compare(getattr(cases, name)(), limit)
            shown.append(f'{name} {worst:.1e}')
            if name == 'fault':
                if worst <= 10 * limit and dtype == torch.float32:
                    problems.append(f'{family.name}: a wrong block or state on purpose moves logits by {worst:.1e} only')
            elif worst > limit or differ:
                problems.append(f'{family.name}: {name}: relative L2 {worst:.1e}, limit {limit:.1e}, {differ} of {count} first choices differ')
    print(f'{family.name:16} {str(dtype).split(".")[-1]:9} limit {limit:.1e}: ' + ', '.join(shown), flush=True)
    return problems


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('families', nargs='*', metavar='FAMILY')
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    problems = []
    for name in asked.families or families.TABLE:
        for dtype in (torch.float32, torch.bfloat16):
            problems += family_cases(families.TABLE[name], dtype)
    for problem in problems:
        print(f'FAILED {problem}')
    print(f'{len(asked.families or families.TABLE)} families, {len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
