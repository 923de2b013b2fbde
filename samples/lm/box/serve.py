#!/usr/bin/env python3
"""serve.py GENERATE: the model in the box answers questions about quire, in text.

A chat of 3,000 tokens: its next turns and a branch resume from what the turns before them left. Then a crowd of conversations
with branches and samples, in pools with more room and less, as two policies plan them in the same bytes. All ways of
serving must give the same texts. GENERATE is quire_generate.
"""
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap

BOX = pathlib.Path(__file__).resolve().parent
GLOSSARY = BOX.parents[2] / 'docs/glossary.md'
MAX_TOKENS = 60
CONVERSATIONS, TURNS = 10, 4
POOLS = ('32MiB', '4MiB', '1536KiB')
POLICIES = ('auto', 'vllm')
LATER = re.compile(r'\d+\.[1-9b]')  # ids of the crowd: all but first turns


class Served:
    """What a run of quire_generate prints: a row per text, and one of all."""

    def __init__(self, generate, requests, *options):
        with tempfile.NamedTemporaryFile('w', suffix='.jsonl') as file:
            file.write(''.join(json.dumps(row) + '\n' for row in requests))
            file.flush()
            done = subprocess.run([generate, '--model', BOX / 'model', '--requests', file.name, '--json',
                                   '--max-tokens', str(MAX_TOKENS), *options], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f'serve: {done.stderr.strip() or done.returncode}')
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.all = lines[-1]['all']
        self.rows = {(row['id'], row['sample']): row for row in lines[:-1]}

    def texts(self):
        return {key: row['text'] for key, row in self.rows.items()}

    def first_token_ms(self, later):
        waits = [row['first_token_s'] for row in self.rows.values() if bool(LATER.match(row['id'])) == later]
        return f'{1000 * statistics.median(waits):,.0f} ms'


def must_equal(served, other, what):
    wanted, got = served.texts(), other.texts()
    wrong = sorted(key for key in wanted.keys() | got.keys() if wanted.get(key) != got.get(key))
    if wrong:
        key = wrong[0]
        sys.exit(f'serve: {what} gives other texts ({len(wrong)} of {len(wanted)}). {key[0]}.{key[1]} is\n'
                 f'  {got.get(key)}\ninstead of\n  {wanted.get(key)}')


def long_chat(generate):
    text = ' '.join(GLOSSARY.read_text(encoding='utf-8').split())[:9000]
    asked = [('first', '', 'What is a page?'), ('second', 'first', 'What is a step?'),
             ('third', 'second', 'Does quire need a GPU?'), ('branch', 'second', 'What is a block?')]
    requests = [{'id': name, 'user': question if after else f'{text} {question}', **({'after': after} if after else {})}
                for name, after, question in asked]
    served = Served(generate, requests)
    plain = Served(generate, requests, '--no-reuse')
    must_equal(served, plain, '--no-reuse')
    for name, after, question in asked:
        row, again = served.rows[name, 0], plain.rows[name, 0]
        if after and row['hit_tokens'] < 0.9 * row['prompt_tokens']:
            sys.exit(f"serve: turn '{name}' hits {row['hit_tokens']} of {row['prompt_tokens']} prompt tokens: it does not resume")
        note = {'': ' (after 9,000 characters of docs/glossary.md)', 'branch': f' (instead of: {asked[2][2]})'}
        print(f"> {question}{note.get(after and name, '')}")
        print(textwrap.fill(row['text'], 100))
        print(f"  {row['prompt_tokens']:,} prompt tokens, {row['hit_tokens']:,} hit; first token after "
              f"{1000 * row['first_token_s']:.0f} ms, {1000 * again['first_token_s']:.0f} ms without reuse")


def crowd():
    """Conversations about questions of the corpus; each branches once, into two samples."""
    questions = []
    for file in sorted((BOX / 'corpus').glob('*.txt')):
        questions += re.findall(r'(?<=\n\n)Q: (.*)', file.read_text(encoding='utf-8'))
    random.Random(5).shuffle(questions)
    asked = iter(questions)
    for conversation in range(CONVERSATIONS):
        for turn in range(TURNS):
            after = {'after': f'{conversation}.{turn - 1}'} if turn else {}
            yield {'id': f'{conversation}.{turn}', 'user': next(asked), **after}
        yield {'id': f'{conversation}.b', 'after': f'{conversation}.1', 'user': next(asked), 'samples': 2, 'temperature': 0.7,
               'seed': conversation}


def compare(generate):
    requests = list(crowd())
    runs = [Served(generate, requests, '--pool', pool, '--policy', policy, '--context', '1024', '--batch', '10', '--budget', '256')
            for pool in POOLS for policy in POLICIES]
    for run in runs[1:]:
        must_equal(runs[0], run, f"policy {run.all['policy']}, {run.all['pages']} pages")
    print(f'{CONVERSATIONS} conversations of {TURNS} turns, each with a branch into 2 samples')

    def line(name, values):
        print(f'  {name:<34}' + ''.join(f'{value:>10}' for value in values))
    line('policy', [run.all['policy'] for run in runs])
    line('pool', [f"{run.all['pool_bytes'] / 2**20:.1f} MiB" for run in runs])
    line('prompt tokens hit', [f"{run.all['hit_tokens']:,}" for run in runs])
    line('prompt tokens computed', [f"{run.all['prefill_tokens']:,}" for run in runs])
    line('preemptions', [run.all['preemptions'] for run in runs])
    line('first token of first turns, median', [run.first_token_ms(False) for run in runs])
    line('first token of later turns, median', [run.first_token_ms(True) for run in runs])
    line('tokens generated per second', [f"{run.all['decode_tokens'] / run.all['seconds']:,.0f}" for run in runs])
    print(f'{len(runs[0].rows)} texts, the same in all six')


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    long_chat(sys.argv[1])
    print()
    compare(sys.argv[1])


if __name__ == '__main__':
    main()
