#!/usr/bin/env python3
"""record_tokenizers.py [--out DIR]: small byte-level BPE tokenizers in the forms that published models have, and what the library
`tokenizers` (PyPI) makes of some texts. Writes DIR/<form>.tokenizer.json and DIR/expected.json."""
import argparse
import json
import pathlib
import sys

try:
    import tokenizers
    from tokenizers import Regex, decoders, models, pre_tokenizers, processors, trainers
except ImportError:
    print('skipped: the library tokenizers is not installed; it comes from PyPI')
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = GPT4.replace(r'\p{N}{1,3}', r'\p{N}')
TEXTS = [
    'Hello, world!', " It's a page; they've 12345 of 2048 blocks.", 'a\n\n  b\t c   \n', 'naïve Ärger, 東京の猫, Привет мир', '🙂🙃 emoji 👩‍👩‍👧',
    '', ' ', 'x' * 40, "I'LL don't WE'RE", '1234567 3.14 10,000', 'tabs\t\tand\r\nreturns\r\n\r\n', 'hybrid caches hybrid caches',
    '<|end|>in the text<|end|>', 'e\u0301 combined', '\u00a0no-break\u2003em', '#include <quire/quire.h>\nint main(void) { return 0; }\n',
]


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), 'isolated'),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


FORMS = {
    'gpt2': dict(pre=pre_tokenizers.ByteLevel(add_prefix_space=False)),
    'spaced': dict(pre=pre_tokenizers.ByteLevel(add_prefix_space=True)),
    'llama3': dict(pre=split(GPT4), ignore_merges=True, begin='<|begin|>'),
    'qwen': dict(pre=split(QWEN)),
    'digits': dict(pre=pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])),
}


def made(form, texts):
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=form.get('ignore_merges', False)))
    tokenizer.pre_tokenizer = form['pre']
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=700, show_progress=False, special_tokens=['<|begin|>', '<|end|>'],
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(texts, trainer)
    if 'begin' in form:
        tokenizer.post_processor = processors.TemplateProcessing(single=form['begin'] + ' $A', special_tokens=[(form['begin'], 0)])
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', default=str(ROOT / 'tests/golden/data/lm/tokenizers'))
    out = pathlib.Path(parser.parse_args().out)
    out.mkdir(parents=True, exist_ok=True)
    training = [(ROOT / 'docs/glossary.md').read_text(encoding='utf-8'), *TEXTS]
    expected = {'tokenizers': tokenizers.__version__, 'texts': TEXTS, 'forms': {}}
    for name, form in FORMS.items():
        tokenizer = made(form, training)
        file = out / f'{name}.tokenizer.json'
        tokenizer.save(str(file), pretty=False)
        expected['forms'][name] = [tokenizer.encode(text).ids for text in TEXTS]
    (out / 'expected.json').write_text(json.dumps(expected, ensure_ascii=True) + '\n', encoding='utf-8')


main()
