#!/usr/bin/env python3
"""walk_transformers.py QUIRE: the default config of every generative class of transformers, planned or refused by name.

What is planned must have the layers, heads, widths, windows and length that transformers says. Ends with 77 (skipped) where transformers
is not installed; the registries themselves are checked without it, by coverage.py.
"""
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault('TRANSFORMERS_VERBOSITY', 'error')
warnings.filterwarnings('ignore')
try:
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
except ImportError:
    print('transformers is not installed')
    sys.exit(77)

MAPPINGS = ('CAUSAL_LM', 'IMAGE_TEXT_TO_TEXT', 'MULTIMODAL_LM', 'SEQ_TO_SEQ_CAUSAL_LM', 'SPEECH_SEQ_2_SEQ')
# Where one number for all layers says something else than what layers keep: rows of another width, one head for all queries, heads of
# some layers, keys that are unfolded, numbers of an encoder, a text model in another place.
OTHER_HEADS = ('Gemma4', 'DiffusionGemma', 'Falcon', 'MiMoV2', 'MiniCPM3', 'Inkling', 'PPFormulaNet', 'PI0')


# A field and what is wrong with it, or an architecture.
REFUSED = re.compile(r'config: (architectures\[0\] = "\w+" is (not known|known but not read)|text_config is of "\w+", which is not read|'
                     r'text_config\.model_type = "\w+" of \w+ is not known|'
                     r'[\w.]+(\[\d+\])?( and \w+)?( = [^;]+?)? (is missing|are missing|must be a |is no multiple of|is more than|is not known))')


def classes():
    """Pairs of a class and its model_type, read from the source: importing it needs torch."""
    source = os.path.join(list(transformers.__path__)[0], 'models', 'auto', 'modeling_auto.py')
    wanted = {f'MODEL_FOR_{mapping}_MAPPING_NAMES' for mapping in MAPPINGS}
    for node in ast.parse(open(source, encoding='utf-8').read()).body:
        if not isinstance(node, ast.Assign) or getattr(node.targets[0], 'id', '') not in wanted:
            continue
        for pair in node.value.args[0].elts:
            if isinstance(pair, ast.Starred):
                continue
            kind, names = ast.literal_eval(pair)
            yield (names if isinstance(names, str) else names[0]), kind


def differences(config, info):
    rows = [re.sub(' +', ' ', row) for row in info['table'].splitlines()[2:]]
    text = config.get_text_config(decoder=True)

    def of(field, default=None):
        try:
            return getattr(text, field, default)
        except Exception:  # of a config whose layers differ
            return None

    queries = of('num_attention_heads')
    width = of('head_dim') or (of('hidden_size') // queries if queries and of('hidden_size') else None)
    heads = f' {of("num_key_value_heads") or queries} x {width} '
    for row in rows:
        if ('full attention' in row or 'sliding window' in row) and heads not in row:
            yield f'heads{heads}but "{row}"'
    if of('num_hidden_layers') not in (None, info['layers']):
        yield f'{of("num_hidden_layers")} layers but {info["layers"]}'
    types = of('layer_types')
    slides = of('num_hidden_layers') if of('sliding_window') and of('use_sliding_window', True) else 0
    slides = types.count('sliding_attention') if types else slides
    slide = ('sliding window', 'latent window') if info['architecture'].startswith('Dots3') else ('sliding window',)
    found = sum(int(row.split()[0]) for row in rows if any(kind in row for kind in slide))
    if slides != found:
        yield f'{slides} layers slide but {found}'
    if of('max_position_embeddings') not in (None, info['max_model_len']):
        yield f'length {of("max_position_embeddings")} but {info["max_model_len"]}'


# Fields that nested configs leave out where they are the defaults of their class.
LEFT_OUT = ('num_hidden_layers', 'num_attention_heads', 'num_key_value_heads', 'hidden_size', 'head_dim', 'max_position_embeddings',
            'sliding_window', 'use_sliding_window', 'attention_chunk_size')


def sparse(quire, path, config, name, full):
    """A nested config without what its class has by default, as it is published: the same model, or a field that is missing."""
    stated = {**config.to_dict(), 'architectures': [name]}
    found = False
    for key, value in list(stated.items()):
        if not isinstance(value, dict) or 'model_type' not in value or not hasattr(getattr(config, key), 'to_dict'):
            continue
        usual = {field.name: field.default for field in getattr(type(getattr(config, key)), '__dataclass_fields__', {}).values()}
        stated[key] = {field: kept for field, kept in value.items() if field not in LEFT_OUT or kept is None or usual.get(field) != kept}
        found = found or stated[key] != value
    if not found:
        return None
    with open(path, 'w', encoding='utf-8') as out:
        out.write(json.dumps(stated, default=str).replace('Infinity', '1e30'))
    run = subprocess.run([quire, 'info', '--model', path, '--json'], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        return '' if REFUSED.search(' '.join(run.stderr.split())) else f'without defaults: {run.stderr.strip()}'
    found = json.loads(run.stdout)
    if not found['max_model_len']:
        return ''  # which is asked for
    return 'the same' if found == full else f'without defaults: {found["table"]}'


def main():
    quire = sys.argv[1]
    planned, refused, same, wrong = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'config.json')
        for name, kind in sorted(set(classes())):
            try:
                config = CONFIG_MAPPING[kind]()
            except Exception as error:  # a class without a default config
                print(f'{name}: no default config: {error}')
                continue
            stated = {**config.to_dict(), 'architectures': [name]}
            with open(path, 'w', encoding='utf-8') as out:
                out.write(json.dumps(stated, default=str).replace('Infinity', '1e30'))
            run = subprocess.run([quire, 'info', '--model', path, '--json'], capture_output=True, text=True, check=False)
            if run.returncode == 0:
                planned += 1
                said = sparse(quire, path, config, name, json.loads(run.stdout))
                same += said == 'the same'
                if said not in (None, '', 'the same'):
                    wrong.append(f'{name}: {said}')
                if not name.startswith(OTHER_HEADS):
                    wrong += [f'{name}: {what}' for what in differences(config, json.loads(run.stdout))]
            elif REFUSED.search(' '.join(run.stderr.split())):
                refused += 1
            else:
                wrong.append(f'{name}: {run.stderr.strip() or run.returncode}')
    print(f'{planned} planned, {refused} refused by name')
    for what in wrong:
        print(what)
    print(f'{same} the same without the defaults of nested configs')
    if same < 70:
        wrong.append('')
        print('fewer than 70 were the same')
    if planned < 280:
        wrong.append('')
        print('fewer than 280 were planned')
    sys.exit(1 if wrong else 0)


main()
