#!/usr/bin/env python3
"""parity.py [--types TYPE,...] [FAMILY...]: transformers over quire's caches against the recorded logits, case by case.

The modeling files are transformers' own; attention, convolutions and state functions are quire's (replaced.py). Each case computes the
recorded sequences in its own way (parity_cases.py), over engines of several kinds: one rank, tensor parallelism, followers, states in place
and at blocks, pages that quire and torch share by DLPack, a pool that is too small. Every row is compared, by relative L2 with the limit of
its type of cache (cache_types.py), and the first choice must be the same wherever its margin exceeds the error. Then the same cases read
wrong blocks and states on purpose, from the 31st token on, and each must be seen. QUIRE_LIBRARY names the library.
"""
import argparse
import dataclasses
import os
import sys
import time

import record  # skips where torch or transformers is missing
import families
import torch
from safetensors.torch import load_file

import cache_types
import parity_cases
import quire
import ranks
import replaced
import through_torch

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'golden', 'data', 'lm')


@dataclasses.dataclass
class Kind:
    """Cases over engines of one kind."""
    name: str
    cases: tuple
    options: dict = dataclasses.field(default_factory=dict)
    needs: str = ''     # 'states', or nothing
    brief: bool = False  # for all types of caches


ALONE = ('whole', 'chunks', 'decode')
MANY = ('batch', 'hits', 'fork', 'preempt', 'abort', 'truncate', 'in_flight', 'drafts')
KINDS = (
    Kind('one rank', (*ALONE, *MANY), brief=True),
    Kind('full', ('small_pool',), {'pages': 0, 'max_sequences': 64}, brief=True),
    Kind('tp2', ('chunks', *MANY), {'tensor_parallel': 2}, brief=True),
    Kind('tp4', ('chunks', *MANY), {'tensor_parallel': 4}),
    Kind('follower', ('chunks', *MANY), {'tensor_parallel': 2, 'rank': ranks.Follower}),
    Kind('in place', ('chunks', *MANY), {'flags': quire.CacheFlag.STATES_IN_PLACE}, 'states'),
    Kind('at blocks', ('chunks', *MANY), {'flags': quire.CacheFlag.STATES_AT_BLOCKS}, 'states'),
    Kind('dlpack', ('chunks', 'decode', *MANY), {'rank': through_torch.Rank}),
)


def reason_against(kind, case, caches):
    """Why a case means nothing for a model, or None."""
    heads = min(cache.num_q_heads for cache in caches if cache.num_q_heads)
    if heads % kind.options.get('tensor_parallel', 1):
        return f'{heads} heads'
    if kind.needs == 'states' and not any(cache.kind == quire.LayerKind.STATE for cache in caches):
        return 'no states'
    if case == 'hits' and any(cache.encoder_tokens for cache in caches):
        return 'no reuse with an encoder'
    return None


@dataclasses.dataclass
class Score:
    """Of the rows of a case: the worst relative L2 of a sequence, rows whose first choice is clear, and those where it is another one."""
    worst: float = 0.0
    clear: int = 0
    differ: int = 0

    def add(self, row):
        got, want = row.got[row.own], row.want[row.own]
        assert len(got), 'nothing was computed'
        is_number = not torch.isnan(got).any()  # or something was read that nobody wrote, or ranks that compute the same do not agree
        self.worst = max(self.worst, record.relative(got, want) if is_number else float('inf'))
        top = want.topk(2, dim=1)
        clear = top.values[:, 0] - top.values[:, 1] > 2 * (got - want).abs().max(dim=1).values
        self.clear += int(clear.sum())
        self.differ += int((clear & (got.argmax(dim=1) != top.indices[:, 0])).sum())


class Suite:
    """All kinds of engines over one family and one type of cache."""

    def __init__(self, family, kept_as):
        self.family, self.kept_as, self.folder = family, kept_as, os.path.join(KEPT, family.name)
        self.kept = load_file(os.path.join(self.folder, 'expected.safetensors'))
        self.want, self.limit, of_type = kept_as.yardstick(family, self.folder, self.kept)
        self.model = replaced.prepared(record.opened(family, self.folder, torch.float32))
        self.caches, self.problems = replaced.described(self.folder, kept_as).layers(), []
        coarse = f'; the type itself changes logits by {of_type:.1e}' if of_type else ''
        print(f'{family.name} {kept_as.name}: limit {self.limit:.1e}{coarse}', flush=True)

    def play_all(self):
        for kind in (kind for kind in KINDS if kind.brief or not self.kept_as.brief):
            reasons = {case: reason_against(kind, case, self.caches) for case in kind.cases}
            cases = [case for case in kind.cases if not reasons[case]]
            shown = []
            if cases:
                with replaced.opened(self.family, self.model, self.folder, self.kept_as, **kind.options) as engine:
                    shown += self.play(kind, cases, engine)
            for reason in dict.fromkeys(filter(None, reasons.values())):
                shown.append(f'without {" ".join(case for case in kind.cases if reasons[case] == reason)}: {reason}')
            print(f'  {kind.name:9} ' + ', '.join(shown), flush=True)
        return self.problems

    def play(self, kind, cases, engine):
        shown, total, least = [], Score(), float('inf')
        for case in cases:
            score, failure = self.score(getattr(parity_cases.Cases(engine, self.kept, self.want), case))
            if failure or score.worst > self.limit or score.differ:
                self.problem(kind, case, failure or f'relative L2 {score.worst:.1e}, {score.differ} of {score.clear} first choices differ')
            shown.append(f'{case} {score.worst:.1e}')
            total.clear, total.differ = total.clear + score.clear, total.differ + score.differ
        in_place, on_the_way = engine.ranks[0].in_place, engine.ranks[0].on_the_way
        if (in_place > 0, on_the_way > 0) != (kind.name == 'in place', kind.name == 'at blocks'):
            self.problem(kind, '', f'{in_place} states were written in place, {on_the_way} at blocks inside rows')
        engine.fault = True
        for case in cases:
            score, failure = self.score(getattr(parity_cases.Cases(engine, self.kept, self.want, 'wrong'), case))
            least = min(least, score.worst)
            if failure or score.worst <= self.limit * (10 if self.kept_as.name == 'fp32' else 1):
                self.problem(kind, case, f'with wrong blocks: {failure or f"logits move by {score.worst:.1e} only"}')
        seen = 'not a number' if least == float('inf') else f'{least:.1e} and more'
        return [*shown, f'top-1 {total.clear - total.differ} of {total.clear}', f'wrong blocks: {seen}']

    def score(self, case):
        """What a case shows, and what went wrong meanwhile."""
        score = Score()
        try:
            for row in case():
                score.add(row)
        except (AssertionError, quire.Error) as failure:
            return score, failure
        return score, None

    def problem(self, kind, case, what):
        where = ' '.join(filter(None, (self.family.name, self.kept_as.name, kind.name, case)))
        self.problems.append(f'{where}: {what}; limit {self.limit:.1e}')


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--types', default=','.join(cache_types.TABLE), help='of caches; all by default')
    arguments.add_argument('families', nargs='*', metavar='FAMILY')
    asked = arguments.parse_args()
    torch.set_num_threads(1)
    problems, began = [], time.monotonic()
    for name in asked.families or families.TABLE:
        for kept_as in asked.types.split(','):
            problems += Suite(families.TABLE[name], cache_types.TABLE[kept_as]).play_all()
    for problem in problems:
        print(f'FAILED {problem}')
    print(f'{len(asked.families or families.TABLE)} families, {len(problems)} problems, {time.monotonic() - began:.0f} s')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
