"""The cases of parity.py: the recorded sequences, computed in many ways. Each returns its rows; what a row has not computed itself was hit.

Caches are verified after every step that ends.
"""
import numpy
import torch

import quire
import record

MATCH = quire.Entry.MATCH


class Row:
    """A request: its tokens, and the logits that it computed itself."""

    def __init__(self, engine, tokens, want, salt, encoder=None, sequence=None, at=0):
        self.tokens, self.want, self.encoder = tokens, want, encoder
        self.sequence = engine.cache.create_sequence(salt=salt) if sequence is None else sequence
        self.first, self.at, self.hit, self.encoder_tokens = at == 0, at, 0, engine.encoder_tokens
        self.got, self.own = torch.zeros(want.shape, dtype=torch.float64), torch.zeros(len(want), dtype=torch.bool)

    @property
    def left(self):
        return len(self.tokens) - self.at

    def take(self, logits, at):
        self.got[at:at + len(logits)], self.own[at:at + len(logits)] = logits, True

    def again(self, at=0):
        """It has `at` tokens now, and goes on from there."""
        self.at, self.first = at, at == 0


def entries(rows, chunk):
    """What a step is asked for: `chunk` tokens of each row, with all symbols that the cache does not know."""
    asked = quire.entries(len(rows))
    for entry, row in zip(asked, rows):
        entry['sequence'], entry['num_tokens'] = row.sequence, min(chunk, row.left)
        entry['symbols_position'], entry['num_symbols'] = row.at, row.left
        entry['flags'] = MATCH if row.first else 0
        entry['encoder_tokens'] = row.encoder_tokens if row.first else 0
    asked['symbols_offset'] = numpy.cumsum(asked['num_symbols']) - asked['num_symbols']
    return asked, numpy.concatenate([row.tokens[row.at:] for row in rows])


def tokens_of(step, rows):
    return numpy.concatenate([row.tokens[int(got['position']):int(got['position'] + got['num_tokens'])]
                              for row, got in zip(rows, step.results)])


def encoders_of(rows):
    return [row.encoder for row in rows if row.first and row.encoder is not None]


def computed(engine, step, rows):
    """Runs a step; its rows have their logits."""
    logits, begin = engine.run(step, tokens_of(step, rows), encoders_of(rows)), 0
    for row, got in zip(rows, step.results):
        count, at = int(got['num_tokens']), int(got['position'])
        row.hit += int(got['hit_tokens'])
        row.take(logits[begin:begin + count], at)
        row.at, row.first = at + count, False
        begin += count


def advance(engine, rows, chunk):
    step = engine.cache.reserve(*entries(rows, chunk)).check()
    computed(engine, step, rows)
    commit(engine, step)


def commit(engine, step):
    step.commit()
    engine.cache.verify()


def finish(engine, rows, chunk):
    while any(row.left for row in rows):
        advance(engine, [row for row in rows if row.left], chunk)
    for row in rows:
        engine.cache.finish(row.sequence)


class Cases:
    """salt: of all sequences, so that nothing is hit that other runs computed."""

    def __init__(self, engine, kept, want, salt=''):
        self.engine, self.kept, self.want, self.salt = engine, kept, want, salt

    def row(self, i, salt, **more):
        tokens = self.kept[f'tokens.{i}'].numpy().astype(numpy.uint32)
        return Row(self.engine, tokens, self.want[i], f'{self.salt} {salt}', self.kept.get(f'encoder.{i}'), **more)

    def each(self, salt, chunk):
        rows = []
        for i in range(3):
            rows.append(self.row(i, f'{salt} {i}'))
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
        """The child goes on as the second sequence, where an encoder belongs to it as the first once more."""
        parent, other = self.row(0, 'fork'), 0 if self.engine.encoder_tokens else 1
        parent.tokens, whole = parent.tokens[:record.SHARED], parent.tokens
        while parent.left:
            advance(self.engine, [parent], 13)
        parent.tokens = whole
        child = self.row(other, '', sequence=self.engine.cache.fork(parent.sequence), at=parent.at)
        finish(self.engine, [parent, child], 3)
        return [parent, child]

    def preempt(self):
        rows = [self.row(2, 'preempt'), self.row(0, 'preempt')]
        for _ in range(3):
            advance(self.engine, rows, 9)
        self.engine.cache.preempt(rows[0].sequence)
        rows[0].again()
        finish(self.engine, rows, 11)
        return rows

    def abort(self):
        """Every step is run with wrong tokens first, and undone. States in place are lost with it: the sequence begins again."""
        row, furthest = self.row(2, 'abort'), -1
        while row.left:
            if row.at > furthest:
                furthest = row.at
                step = self.engine.cache.reserve(*entries([row], 6)).check()
                self.engine.run(step, (tokens_of(step, [row]) + 7) % record.families.VOCABULARY, encoders_of([row]))
                step.abort()
                self.engine.cache.verify()
                row.again(self.engine.cache.sequence(row.sequence).committed)
            advance(self.engine, [row], 6)
        self.engine.cache.finish(row.sequence)
        return [row]

    def truncate(self):
        """44 tokens become 40, and the sequence goes on as the second one. Where states are, only 0 tokens are legal."""
        row, other = self.row(0, 'truncate'), 0 if self.engine.encoder_tokens else 1
        row.tokens = row.tokens[:record.SHARED + 4]
        while row.left:
            advance(self.engine, [row], 11)
        at = 0 if any(cache.kind == quire.LayerKind.STATE for cache in self.engine.kinds.values()) else record.SHARED
        self.engine.cache.truncate(row.sequence, at)
        self.engine.cache.verify()
        child = self.row(other, '', sequence=row.sequence)
        child.again(at)
        finish(self.engine, [child], 7)
        return [child]

    def in_flight(self):
        """The next step is reserved and run before the last one is committed."""
        rows, before = [self.row(i, f'in flight {i}') for i in (2, 0)], None
        while any(row.left for row in rows):
            left = [row for row in rows if row.left]
            step = self.engine.cache.reserve(*entries(left, 8)).check()
            computed(self.engine, step, left)
            if before is not None:
                commit(self.engine, before)
            before = step
        commit(self.engine, before)
        for row in rows:
            self.engine.cache.finish(row.sequence)
        return rows

    def small_pool(self):
        """Three requests in a full pool. Who is refused waits; if it is the oldest, the youngest is preempted, or others end."""
        engine, refused, ballast = self.engine, 0, self.ballast()
        rows = [self.row(i, f'small {i}') for i in range(3)]
        while any(row.left for row in rows):
            left = [row for row in rows if row.left]
            for row in left:
                step = engine.cache.reserve(*entries([row], 16))
                if step:
                    computed(engine, step, [row])
                    commit(engine, step)
                    if not row.left:
                        engine.cache.finish(row.sequence)
                    continue
                refused += 1
                youngest = next((other for other in reversed(left) if other is not row and 0 < other.at < len(other.tokens)), None)
                if row is not left[0]:
                    continue
                if youngest is not None:
                    engine.cache.preempt(youngest.sequence)
                    youngest.again()
                else:
                    engine.cache.finish(ballast.pop().sequence)
                break  # the oldest takes what became free
            engine.cache.verify()
        assert refused > 0, 'nobody was refused'
        for row in ballast:
            engine.cache.finish(row.sequence)
        return rows

    def ballast(self):
        """Sequences that only take room: nobody computes them, and nobody has their salt."""
        ballast = []
        while True:
            ballast.append(self.row(2, f'ballast {len(ballast)}'))
            step = self.engine.cache.reserve(*entries(ballast[-1:], 1000))
            if not step:
                return ballast
            step.commit()

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
            proposed[right:] = (proposed[right:] + 7) % record.families.VOCABULARY
            row.take(self.engine.run(step, proposed)[:right], row.at)
            follow = row.tokens[row.at + 1:row.at + right + 1]
            outcome = quire.outcomes(1)
            outcome['sequence'], outcome['num_accepted'] = row.sequence, right
            outcome['symbols_position'], outcome['num_symbols'] = row.at + 1, len(follow)
            step.commit_rows(outcome, follow)
            self.engine.cache.verify()
            row.at += right
        self.engine.cache.finish(row.sequence)
        return [row]
