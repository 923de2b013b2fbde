#!/usr/bin/env python3
"""coverage.py QUIRE DOCS [--check]: the tables of docs/models.md, between two marks.

Each architecture of registries.txt is given to `quire info --model` alone in a config. Known ones ask for a field; others are refused
with a reason or as unknown. Around a text model stands the type that text_types.txt has for it; architectures that transformers does not
have take any text model, which their config names: they are read with a Llama inside, and counted apart. Drafts that keep nothing of their own are a reason, too, and stand apart: there is nothing to read. --check fails where the tables of the file differ.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NONE = 'it keeps no cache of its own'
BEGIN, END = '<!-- coverage: begin -->', '<!-- coverage: end -->'


def registries():
    lists, name = {}, None
    for line in open(os.path.join(HERE, 'registries.txt'), encoding='utf-8'):
        line = line.strip()
        if line.startswith('['):
            name = line.strip('[]')
            lists[name] = []
        elif line and not line.startswith('#'):
            lists[name] += line.split()
    return lists


def text_types():
    types = {}
    for line in open(os.path.join(HERE, 'text_types.txt'), encoding='utf-8'):
        if not line.startswith('#'):
            kind, names = line.split(':')
            types.update({name: kind for name in names.split()})
    return types


TYPES = text_types()
ANY = set()  # that take any text model


def asked(quire, folder, architecture, kind):
    path = os.path.join(folder, architecture + '.json')
    with open(path, 'w', encoding='utf-8') as out:
        json.dump({'architectures': [architecture], **({'text_config': {'model_type': kind}} if kind else {})}, out)
    run = subprocess.run([quire, 'info', '--model', path], capture_output=True, text=True, check=False)
    return run.returncode, ' '.join(run.stderr.split())


def outcome(quire, folder, architecture):
    code, said = asked(quire, folder, architecture, TYPES.get(architecture))
    if 'text_config, or what stands for it, is missing' in said:
        ANY.add(architecture)
        code, said = asked(quire, folder, architecture, 'llama')
    if 'is known but not read: ' in said:
        return said.split('is known but not read: ')[1].split('; describe its layers')[0]
    if 'text_config.model_type' in said and ' is not known' in said:
        return f'the text model {TYPES[architecture]} that it has by default is not known'
    if 'which is not read: ' in said:
        return said.split('which is not read: ')[1]
    if f'architectures[0] = "{architecture}" is not known' in said:
        return 'its name is not known'
    if code == 0 or ' is missing' in said or ' must be ' in said or ' is not known' in said:
        return ''
    sys.exit(f'{architecture}: {said}')


def wrapped(text, width=98, indent='  '):
    lines, line = [], ''
    for word in text.split():
        if len(line) + len(word) + 1 > width:
            lines.append(line)
            line = indent + word
        else:
            line += (' ' if line.strip() else '') + word if line else word
    return '\n'.join(lines + [line])


def tables(quire):
    lists = registries()
    names = sorted({name for listed in lists.values() for name in listed})
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = dict(zip(names, pool.map(lambda name: outcome(quire, folder, name), names)))
    out = ['| registry | architectures | read | of the others, without a cache of their own | read or without |', '|---|---|---|---|---|']
    for registry, listed in lists.items():
        read = sum(not found[name] for name in listed)
        without = sum(found[name].startswith(NONE) for name in listed)
        out.append(f'| {registry} | {len(listed)} | {read} | {without or "–"} | {100 * (read + without) / len(listed):.0f} % |')
    out += ['', wrapped(f'{len(ANY)} of these names are of models around a text model that transformers does not have. They are read with '
                        'whatever text model their config names, if that is read: ' + ', '.join(sorted(ANY)) + '.', indent=''),
            '', 'Refused, and why:', '']
    reasons = {}
    for name in names:
        if found[name]:
            reasons.setdefault(found[name], []).append(name)
    for reason, refused in sorted(reasons.items()):
        out.append(wrapped(f'- {reason}: ' + ', '.join(refused) + '.'))
    return '\n'.join(out)


def main():
    quire, docs = sys.argv[1], sys.argv[2]
    text = open(docs, encoding='utf-8').read()
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    made = f'{head}{BEGIN}\n\n{tables(quire)}\n\n{END}{tail}'
    if '--check' not in sys.argv:
        open(docs, 'w', encoding='utf-8').write(made)
    elif made != text:
        sys.exit(f'{docs} is not what {sys.argv[0]} makes of it; run it without --check')


main()
