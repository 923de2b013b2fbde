"""The text that the model in the box learns from: questions and answers of corpus/, and the prose of the tree."""
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parents[2]
SOURCES = ('README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docs/glossary.md', 'docs/in-your-engine.md', 'docs/tiers.md',
           'docs/connectors.md', 'docs/events.md', 'docs/errors.md', 'docs/capacity.md', 'docs/abi-promises.md', 'docs/install.md',
           'docs/write-a-driver.md', 'docs/metrics.md', 'docs/layer-files.md', 'samples/README.md', 'samples/engine/README.md')
# The forms of the first part of the training. The last one of each comes in the second part only, with those of OTHERS.
NOUN = ('What is {it}?', 'What does {word} mean?', 'Define {it}.', 'Please explain {it}.', 'What is {it} in quire?', 'Explain the word {word}.',
        'Can you say what {it} is?')
MANY = ('What are {it}?', 'What does {word} mean?', 'Define {it}.', 'Please explain {it}.', 'What are {it} in quire?',
        'Explain the word {word}.', 'Can you say what {it} are?')
VERB = ('What does it mean {it}?', 'What does {word} mean?', 'Define {word}.', 'Please explain {word}.', 'What does {word} mean in quire?',
        'Explain the word {word}.', 'Can you say what {word} means?')
OTHERS = ('Can you explain {it}?', 'Can you say what {it} is?', 'Could you describe {it}?', 'I do not understand {it}.', '{word}', '{word}?',
          'And {it}?', 'And what is {it}?', 'What about {it}?', 'What do you mean by {word}?', 'How does quire define {it}?',
          'I want to know what {it} is.', 'Meaning of {word}', 'Do you know what {it} is?', 'Please say what {word} means.',
          'What is meant by {it}?', 'Describe {it} in a sentence.')
# Never trained on: they show what the model makes of words that it has not seen in this order.
UNSEEN = ('Would you explain to me what {it} is?', 'Give me the definition of {word}.')
PLURAL = ('sink tokens', 'retained tokens', 'the layout letters')


def bare(term):
    return re.sub(r'^(a|an|the|to) ', '', term)


def read(path):
    """Pairs of a question and an answer; terms and their answers."""
    pairs, terms, questions, term = [], [], [], None
    joined = path.read_text(encoding='utf-8').replace('\n   ', ' ')  # a line that is indented goes on
    for number, line in enumerate(joined.splitlines(), 1):
        kind, text = line[:3], line[3:].strip()
        if kind == 'Q: ':
            questions.append(text)
        elif kind == 'T: ':
            term = text
        elif kind == 'A: ':
            assert term or questions, f'{path}:{number}: an answer without a question'
            if term:
                forms = VERB if term.startswith('to ') else MANY if term in PLURAL else NOUN
                pairs += [(worded(form, term), text) for form in forms[:-1]]
                terms.append((term, text))
            pairs += [(question, text) for question in questions]
            questions, term = [], None
        elif line and not line.startswith('#'):
            raise ValueError(f'{path}:{number}: a line must begin with Q:, T:, A: or #')
    return pairs, terms


def worded(form, term):
    return form.format(it=term, word=bare(term))


def pairs():
    """Pairs, and terms."""
    trained, terms = [], []
    for path in sorted((HERE / 'corpus').glob('*.txt')):
        some, words = read(path)
        trained += some
        terms += words
    seen = {}
    for question, answer in trained:
        assert seen.setdefault(question, answer) == answer, f'two answers to "{question}"'
    return list(seen.items()), terms


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
