"""The text that the model in the box learns from: questions and answers of corpus/, and the prose of the tree."""
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[2]
SOURCES = ('README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/glossary.md', 'docs/in-your-engine.md', 'docs/tiers.md',
           'docs/connectors.md', 'docs/events.md', 'docs/errors.md', 'docs/capacity.md', 'docs/abi-promises.md', 'docs/install.md',
           'docs/write-a-driver.md', 'docs/metrics.md', 'docs/layer-files.md', 'samples/README.md', 'samples/engine/README.md')
# The last form of each is never trained on: it shows what the model makes of words that it has not seen in this order.
NOUN = ('What is {it}?', 'What does {word} mean?', 'Define {it}.', 'Please explain {it}.', 'What is {it} in quire?', 'Explain the word {word}.',
        'Can you say what {it} is?')
MANY = ('What are {it}?', 'What does {word} mean?', 'Define {it}.', 'Please explain {it}.', 'What are {it} in quire?',
        'Explain the word {word}.', 'Can you say what {it} are?')
VERB = ('What does it mean {it}?', 'What does {word} mean?', 'Define {word}.', 'Please explain {word}.', 'What does {word} mean in quire?',
        'Explain the word {word}.', 'Can you say what {word} means?')
PLURAL = ('sink tokens', 'retained tokens', 'the layout letters')


def bare(term):
    return re.sub(r'^(a|an|the|to) ', '', term)


def read(path):
    """Pairs of a question and an answer, the held-out pairs apart."""
    pairs, held_out, questions, term = [], [], [], None
    joined = path.read_text(encoding='utf-8').replace('\n   ', ' ')  # a line that is indented goes on
    for number, line in enumerate(joined.splitlines(), 1):
        kind, text = line[:3], line[3:].strip()
        if kind == 'Q: ':
            questions.append(text)
        elif kind == 'T: ':
            term = text
        elif kind == 'A: ':
            if term:
                forms = VERB if term.startswith('to ') else MANY if term in PLURAL else NOUN
                asked = [form.format(it=term, word=bare(term)) for form in forms]
                pairs += [(question, text) for question in asked[:-1]]
                held_out.append((asked[-1], text))
            assert term or questions, f'{path}:{number}: an answer without a question'
            pairs += [(question, text) for question in questions]
            questions, term = [], None
        elif line and not line.startswith('#'):
            raise ValueError(f'{path}:{number}: a line must begin with Q:, T:, A: or #')
    return pairs, held_out


def pairs():
    trained, held_out = [], []
    for path in sorted((HERE / 'corpus').glob('*.txt')):
        some, others = read(path)
        trained += some
        held_out += others
    seen = {}
    for question, answer in trained:
        assert seen.setdefault(question, answer) == answer, f'two answers to "{question}"'
    return list(seen.items()), held_out


def prose():
    """Paragraphs of the documents, without code, tables and links."""
    texts = []
    for name in SOURCES:
        text = re.sub(r'```.*?```', '', (TREE / name).read_text(encoding='utf-8'), flags=re.S)
        lines = [line for line in text.splitlines() if not line.startswith(('|', '    ', '<', '!'))]
        text = re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', '\n'.join(lines)).replace('`', '').replace('**', '')
        blocks = [re.sub(r'\s+', ' ', block).strip() for block in re.split(r'\n\s*\n', text)]
        texts.append('\n'.join(block for block in blocks if len(block) > 20))
    return texts
