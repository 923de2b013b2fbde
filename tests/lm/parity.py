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
        self.first, self.at, self.hit = match, at, 0
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
    asked['symbols_offset'] = numpy.cumsum(asked['num_symbols']) - asked['num_symbols']
    return asked, numpy.concatenate([row.tokens[row.at:] for row in rows])


def tokens_of(step, rows):
    return numpy.concatenate([row.tokens[int(got['position']):int(got['position'] + got['num_tokens'])]
                              for row, got in zip(rows, step.results)])


def advance(engine, rows, chunk, abort=False):
    asked, symbols = entries(rows, chunk)
    step = engine.cache.reserve(asked, symbols).check()
    logits = engine.run(step, tokens_of(step, rows))
    if abort:
        step.abort()
        return
    step.commit()
    begin = 0
    for row, got in zip(rows, step.results):
        count, at = int(got['num_tokens']), int(got['position'])
        row.hit += int(got['hit_tokens'])
        row.got[at:at + count] = logits[begin:begin + count]
        row.at, row.first = at + count, False
        begin += count
    engine.cache.verify()


def finish(engine, rows, chunk):
    while any(row.left for row in rows):
        advance(engine, [row for row in rows if row.left], chunk)
    for row in rows:
        engine.cache.finish(row.sequence)


class Cases:
    """Each returns its rows; what a row has not computed itself was hit."""

    def __init__(self, engine, kept, cross):
        self.engine, self.kept, self.cross = engine, kept, cross

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
            advance(self.engine, [row], 6, abort=True)
            advance(self.engine, [row], 6)
        self.engine.cache.finish(row.sequence)
        return [row]

    def drafts(self):
        """After 20 tokens, steps of four tokens of which 1, 2, 3, 4, 1, ... are right."""
        row, right = self.row(0, 'drafts'), 0
        whole, row.tokens = row.tokens, row.tokens[:20]
        asked, symbols = entries([row], 20)
        step = self.engine.cache.reserve(asked, symbols).check()
        row.got[:20] = self.engine.run(step, row.tokens)
        step.commit(whole[20:21])
        row.at, row.tokens = 20, whole
        while row.left > 4:
            right = right % 4 + 1
            asked = quire.entries(1)
            asked['sequence'], asked['num_tokens'] = row.sequence, 4
            step = self.engine.cache.reserve(asked, None).check()
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
        return [*alone, 'fault'] if self.cross else [*alone, 'batch', 'hits', 'fork', 'preempt', 'abort', 'drafts', 'fault']


def compare(rows, limit):
    """Rows that were computed: the worst relative L2 over a sequence, and how many first choices differ that must not."""
    worst, differ, count = 0.0, 0, 0
    for row in rows:
        computed = ~torch.isnan(row.got).all(dim=1)
        got, want = row.got[computed], row.want[computed]
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
    with replaced.closing(replaced.Engine(family, model, folder, dtype, **limits)) as engine:
        cases = Cases(engine, kept, cross)
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
