#!/usr/bin/env python3
"""record.py [--out DIR] [--check DIR] [--box DIR] [--parts] [FAMILY...]: tiny random checkpoints of families, and the logits of transformers for them.

Needs torch, transformers and safetensors from PyPI. A second run with the same versions gives the same files, byte for byte.

  --out DIR    writes DIR/FAMILY/{config.json,model.safetensors,expected.safetensors}
  --check DIR  makes the same again and compares with what DIR holds: weights bit by bit, logits to 1e-6 (processors round differently)
  --box DIR    writes DIR/expected.safetensors: answers of the trained model there and their logits; with --check it compares them
  --parts      prints what token 0 and every special part of a family change in the last rows; ends with 1 if one changes too little

The yardstick is the class of transformers itself with the weights of bf16 widened to float64: the whole sequence in one forward, without
cache, eager attention. Where its code asks for float32 (norms, softmax, states), it gets float64, too, so that nothing is rounded but the
logits, once, to float32.
"""
import argparse
import contextlib
import hashlib
import json
import os
import shutil
import struct
import sys
import tempfile
import warnings

os.environ.setdefault('TRANSFORMERS_VERBOSITY', 'error')
os.environ.setdefault('HF_HUB_OFFLINE', '1')
warnings.filterwarnings('ignore')
try:
    import numpy
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as missing:
    print(f'skipped: {missing.name} is not installed; torch, transformers and safetensors come from PyPI')
    sys.exit(77)
transformers.logging.disable_progress_bar()
import families

SEED = 25
LENGTHS = (67, 59, 53)  # tokens of the recorded sequences: more than three blocks of 16 and two windows
SHARED = 40             # tokens that the first two have in common
MOVED = 1e-3            # what token 0 and every part must change in the last rows at least: ten times the tolerance of fp32 caches
NOISY, NOISE, STEADY = 6, 3e-3, 4e-2  # runs with noise in the embeddings, how much, and how little the last row may move by it
DTYPES = {torch.float32: 'F32', torch.int32: 'I32'}


def write_safetensors(path, tensors, metadata):
    """The format, with sorted names: safetensors' own writer keeps no order of metadata."""
    header, at, blobs = {'__metadata__': dict(sorted(metadata.items()))}, 0, []
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        blobs.append(tensor.numpy().tobytes())
        header[name] = {'dtype': DTYPES[tensor.dtype], 'shape': list(tensor.shape), 'data_offsets': [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text + b''.join(blobs))


def metadata_of(path):
    with open(path, 'rb') as file:
        return json.loads(file.read(struct.unpack('<Q', file.read(8))[0]))['__metadata__']


@contextlib.contextmanager
def widened(on=True):
    """Code that asks for float32 gets float64."""
    if not on:
        yield
        return
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])


def random_of(*names):
    digest = hashlib.sha256('/'.join([str(SEED), *names]).encode()).digest()
    return numpy.random.RandomState(struct.unpack('<8I', digest))


def filled(family, model):
    """Every weight by the first rule of its name: independent of the order in which a class makes them."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            draw = torch.from_numpy(random_of(family.name, name).standard_normal(tuple(weight.shape)))
            weight.copy_(families.weight(family, name, draw))
    return model


def made(family, folder):
    """The checkpoint as save_pretrained writes it."""
    config = family.config()
    config._attn_implementation = config._experts_implementation = 'eager'
    model = filled(family, family.model_class(config)).to(torch.bfloat16)
    for name, buffer in model.named_buffers():
        if name.endswith('e_score_correction_bias'):  # published checkpoints keep it in float32
            buffer.data = 0.3 * torch.from_numpy(random_of(family.name, name).standard_normal(tuple(buffer.shape))).float()
    model.save_pretrained(folder)
    for left in set(os.listdir(folder)) - {'config.json', 'model.safetensors'}:
        os.remove(os.path.join(folder, left))


def opened(family, folder, dtype, changes=(), zeroed=()):
    """The checkpoint read by its class and widened; with other config fields or other weights where parts are neutralised."""
    read = family.model_class.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation='eager')
    state = read.state_dict()
    for pattern, value in zeroed:
        hits = [name for name in state if pattern in name]
        assert hits, f'{family.name}: no weight is named {pattern}'
        for name in hits:
            state[name] = value(state[name]) if callable(value) else torch.full_like(state[name], value)
    config = family.config_class.from_pretrained(folder)
    config._attn_implementation = config._experts_implementation = 'eager'
    for field, value in dict(changes).items():
        assert hasattr(config, field), f'{family.name}: config has no {field}'
        setattr(config, field, value)
    with widened(dtype == torch.float64):
        model = family.model_class(config).to(dtype)
        missing, unexpected = model.load_state_dict({name: tensor.to(dtype) for name, tensor in state.items()}, strict=False)
    assert not changes and not missing and not unexpected or changes, (family.name, missing, unexpected)
    return model.eval()


def steady(family, model, before, draw):
    """The next token. Where experts are chosen, one for which small errors choose no others: such a row would be compared with another."""
    if not family.routed:
        return int(draw.randint(3, family.vocabulary))
    embed, best = model.get_input_embeddings(), None
    for candidate in draw.permutation(numpy.arange(3, family.vocabulary))[:12]:
        rows = embed(torch.tensor([[*before, candidate]])).repeat(1 + NOISY, 1, 1)
        noise = torch.from_numpy(draw.standard_normal(tuple(rows.shape))).to(rows.dtype)
        noise[0] = 0
        last = model(inputs_embeds=rows * (1 + NOISE * noise), use_cache=False).logits[:, -1]
        moved = float(((last[1:] - last[0]).norm(dim=1) / last[0].norm()).max())
        if best is None or moved < best[0]:
            best = moved, int(candidate)
        if moved < STEADY:
            break
    return best[1]


def grown(family, model, name, length, begin=()):
    draw, tokens = random_of(family.name, name), list(begin)
    with torch.no_grad():
        while len(tokens) < length:
            tokens.append(steady(family, model, tokens, draw))
    return tokens


def sequences(family, model):
    """Token ids, and the encoder's input of each where there is an encoder."""
    first = grown(family, model, 'tokens.0', LENGTHS[0])
    tokens = [first, grown(family, model, 'tokens.1', LENGTHS[1], first[:SHARED]), grown(family, model, 'tokens.2', LENGTHS[2])]
    return [torch.tensor(each, dtype=torch.int32) for each in tokens], families.encoder_inputs(family, random_of)


def logits(family, model, tokens, encoder, dtype):
    with torch.no_grad(), widened(dtype == torch.float64):
        inputs = families.forward_inputs(family, tokens.long()[None], encoder, dtype)
        return model(**inputs, use_cache=False).logits[0].to(torch.float64)


def box(folder):
    """Tensors of the trained model: greedy answers to a few questions, as one sequence of turns each."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(os.path.join(folder, 'tokenizer.json'))
    end = tokenizer.token_to_id('<|im_end|>')
    exact, single = (opened(families.BOX, folder, dtype) for dtype in (torch.float64, torch.float32))
    tensors, worst = {}, 0.0
    for i, questions in enumerate(families.ASKED):
        ids = []
        for question in questions:
            ids += tokenizer.encode(f'<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n').ids
            for _ in range(64):
                ids.append(int(logits(families.BOX, exact, torch.tensor(ids), None, torch.float64)[-1].argmax()))
                if ids[-1] == end:
                    break
            ids += tokenizer.encode('\n').ids
        tokens = torch.tensor(ids, dtype=torch.int32)
        want = logits(families.BOX, exact, tokens, None, torch.float64)
        worst = max(worst, relative(logits(families.BOX, single, tokens, None, torch.float32), want))
        tensors[f'tokens.{i}'], tensors[f'logits.{i}'] = tokens, want.to(torch.float32)
        print(tokenizer.decode(ids, skip_special_tokens=False))
    return tensors, described(families.BOX, worst)


def described(family, worst):
    return {'transformers': transformers.__version__, 'torch': torch.__version__.split('+')[0], 'class': family.model_class.__name__,
            'seed': str(SEED), 'dtype': 'float64', 'fp32_error': f'{worst:.1e}'}


def relative(got, want):
    return float(((got - want).norm() / want.norm()))


def record(family, folder):
    os.makedirs(folder, exist_ok=True)
    made(family, folder)
    exact, single = opened(family, folder, torch.float64), opened(family, folder, torch.float32)
    tokens, encoders = sequences(family, single)
    tensors, worst = {}, 0.0
    for i, (ids, encoder) in enumerate(zip(tokens, encoders)):
        want = logits(family, exact, ids, encoder, torch.float64)
        assert torch.isfinite(want).all(), f'{family.name}: logits are not finite'
        worst = max(worst, relative(logits(family, single, ids, encoder, torch.float32), want))
        tensors[f'tokens.{i}'], tensors[f'logits.{i}'] = ids, want.to(torch.float32)
        if encoder is not None:
            tensors[f'encoder.{i}'] = encoder
    write_safetensors(os.path.join(folder, 'expected.safetensors'), tensors, described(family, worst))
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    print(f'{family.name:16} {family.model_class.__name__:32} {size:7} bytes  fp32_error {worst:.1e}', flush=True)
    assert size <= 200 * 1024, f'{family.name}: {size} bytes are too many'


def parts(family, folder):
    """What token 0 and every part changes in the last row of each sequence, relative L2: the least of the sequences' for token 0."""
    kept = load_file(os.path.join(folder, 'expected.safetensors'))
    tokens = [kept[f'tokens.{i}'] for i in range(len(LENGTHS))]
    encoders = [kept.get(f'encoder.{i}') for i in range(len(LENGTHS))]
    exact = opened(family, folder, torch.float64)
    want = [logits(family, exact, ids, encoder, torch.float64) for ids, encoder in zip(tokens, encoders)]
    rows = {}
    moved = []
    for ids, encoder, base in zip(tokens, encoders, want):
        other = ids.clone()
        other[0] = 3 + (ids[0] - 3 + 1) % (family.vocabulary - 3)
        moved.append(relative(logits(family, exact, other, encoder, torch.float64)[-1], base[-1]))
    rows['token 0'] = min(moved)
    for name, part in family.parts.items():
        model = opened(family, folder, torch.float64, part.get('config', {}), part.get('weights', ()))
        with part['code']() if 'code' in part else contextlib.nullcontext():
            rows[name] = relative(logits(family, model, tokens[0], encoders[0], torch.float64)[-1], want[0][-1])
    print(f'{family.name:16} ' + ', '.join(f'{name} {value:.1e}' for name, value in rows.items()), flush=True)
    return [f'{family.name}: {name} moves the last row by {value:.1e} only' for name, value in rows.items() if value < MOVED]


def bits(path):
    return {name: tensor.view(torch.uint8) if tensor.dim() else tensor for name, tensor in load_file(path).items()}


def compare(family, kept, folder):
    """What differs between a recorded folder and one made now."""
    for file in ('config.json', 'model.safetensors', 'expected.safetensors'):
        if not os.path.exists(os.path.join(kept, file)):
            return [f'{family.name}: {kept}/{file} is not there']
    problems = []
    old, new = (bits(os.path.join(path, 'model.safetensors')) for path in (kept, folder))
    if old.keys() != new.keys():
        problems.append(f'{family.name}: other weights: {sorted(old.keys() ^ new.keys())[:4]}')
    problems += [f'{family.name}: {name} differs' for name in sorted(old.keys() & new.keys()) if not torch.equal(old[name], new[name])]
    configs = [json.load(open(os.path.join(path, 'config.json'), encoding='utf-8')) for path in (kept, folder)]
    for config in configs:
        config.pop('transformers_version', None)
    if configs[0] != configs[1]:
        fields = sorted(key for key in configs[0].keys() | configs[1].keys() if configs[0].get(key) != configs[1].get(key))
        print(f'{family.name}: config.json has other fields now: {", ".join(fields)}')  # versions add fields; logits decide
    old, new = (load_file(os.path.join(path, 'expected.safetensors')) for path in (kept, folder))
    return problems + compare_tensors(family, old, new)


def compare_tensors(family, old, new):
    if {name: tensor.shape for name, tensor in old.items()} != {name: tensor.shape for name, tensor in new.items()}:
        return [f'{family.name}: other tensors in expected.safetensors']
    errors = {name: relative(new[name].double(), old[name].double()) for name in sorted(old)}
    return [f'{family.name}: {name} differs by {error:.1e}' for name, error in errors.items()
            if error > (1e-6 if name.startswith('logits') else 0)]


def record_box(folder, checked):
    """Writes what the trained model says, or compares it with what is there."""
    tensors, metadata = box(folder)
    path = os.path.join(folder, 'expected.safetensors')
    if checked:
        return compare_tensors(families.BOX, load_file(path), tensors)
    write_safetensors(path, tensors, metadata)
    print(f'{path}: {os.path.getsize(path)} bytes  fp32_error {metadata["fp32_error"]}')
    return []


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--out')
    arguments.add_argument('--check')
    arguments.add_argument('--box')
    arguments.add_argument('--parts', action='store_true')
    arguments.add_argument('families', nargs='*', metavar='FAMILY')
    asked = arguments.parse_args()
    if not (asked.out or asked.check or asked.parts or asked.box):
        arguments.error('one of --out, --check, --box and --parts is needed')
    torch.set_num_threads(1)
    unknown = set(asked.families) - set(families.TABLE)
    if unknown:
        arguments.error(f'unknown family {", ".join(sorted(unknown))}; known: {" ".join(families.TABLE)}')
    chosen = [families.TABLE[name] for name in asked.families or families.TABLE]
    problems = record_box(asked.box, asked.check) if asked.box else []
    if asked.box and not (asked.out or asked.check or asked.parts):
        chosen = []
    with tempfile.TemporaryDirectory() as scratch:
        for family in chosen:
            folder = os.path.join(asked.out or scratch, family.name)
            shutil.rmtree(folder, ignore_errors=True)
            record(family, folder)
            if asked.parts:
                problems += parts(family, folder)
            if asked.check:
                problems += compare(family, os.path.join(asked.check, family.name), folder)
    for problem in problems:
        print(f'FAILED {problem}')
    print(f'{len(chosen)} families, {len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
