#!/usr/bin/env python3
"""train.py [--out DIR] [--steps N] [--work DIR] [--evaluate DIR]: trains the model in the box.

Needs torch, transformers and tokenizers from PyPI; two cores and at most an hour. Same seed, same versions, same kind of processor: the same
checkpoint. --work keeps the state every few minutes, and a run that was cut off goes on from there. --evaluate only asks a checkpoint the
questions: those it learned, and a form of question that it never saw.
"""
import argparse
import json
import math
import os
import pathlib
import sys
import time

os.environ.setdefault('TRANSFORMERS_VERBOSITY', 'error')
os.environ.setdefault('HF_HUB_OFFLINE', '1')
import numpy
import tokenizers
import torch
import transformers

import corpus

SEED = 7
VOCABULARY = 1536
ROW = 512           # tokens of a row
ROWS = 8            # rows of a step
LONG = 8            # every so many steps the same number of tokens comes in two long rows, as in a long chat
STEPS = 900         # of the first part: pairs as they stand in the corpus
MORE = 200          # of the second part: other forms of questions, and questions that lack words
PEAK = 3e-3         # learning rate
AGAIN = 1.2e-3      # its peak in the second part
WARM = 60           # steps until there
SHOWN = 10          # answers of each kind that --evaluate prints
COUNTED = 100       # and how many it counts
PROSE = 0.12        # share of rows that are documents
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEMPLATE = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def turn(role, text):
    return f'<|im_start|>{role}\n{text}<|im_end|>\n'


def make_tokenizer(pairs, texts):
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(PATTERN), 'isolated'), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    spoken = [turn('user', question) + turn('assistant', answer) for question, answer in pairs]
    tokenizer.train_from_iterator(spoken * 2 + texts, trainer)
    return tokenizer


def make_config():
    return transformers.LaraMiniConfig(
        vocab_size=VOCABULARY, hidden_size=160, num_hidden_layers=5,
        layer_types=['linear_attention', 'sliding_attention', 'linear_attention', 'full_attention', 'linear_attention'],
        num_attention_heads=4, num_key_value_heads=2, head_dim=32, sliding_window=64, max_position_embeddings=8192,
        linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32,
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=96, shared_expert_intermediate_size=160,
        rope_parameters={'rope_type': 'default', 'rope_theta': 10000.0}, tie_word_embeddings=True,
        bos_token_id=None, eos_token_id=2, pad_token_id=0)


class Rows:
    """Rows of conversations in random order and of documents; labels are -100 where nothing is to be learned."""

    def __init__(self, tokenizer, pairs, terms, texts):
        self.terms = {answer: term for term, answer in terms}
        self.draw = numpy.random.RandomState(SEED)
        self.encode = lambda text: tokenizer.encode(text).ids
        self.pairs, self.left, self.second = pairs, [], False
        self.documents = numpy.concatenate([[0] + self.encode(text) for text in texts])

    def worded(self, question):
        """As people type it."""
        chance = self.draw.random_sample(4)
        if chance[0] < 0.2:
            question = question[0].lower() + question[1:]
        if chance[1] < 0.2:
            question = question.rstrip('?.')
        if chance[2] < 0.05:
            question = question + ' Please explain.'
        if chance[3] < 0.15:
            begin = ('In quire, ', 'Please: ', 'A question: ')[int(chance[3] / 0.05)]
            question = begin + question[0].lower() + question[1:]
        return question

    def other(self, question, answer):
        """A question of the second part: another form, or not all of its words."""
        chance = self.draw.random_sample(2)
        if answer in self.terms and chance[0] < 0.6:
            return corpus.worded(corpus.OTHERS[self.draw.randint(len(corpus.OTHERS))], self.terms[answer])
        if chance[0] > 0.5:
            words = question.split(' ')
            kept = [word for word, drawn in zip(words, self.draw.random_sample(len(words))) if drawn > 0.15 or len(word) > 6]
            question = ' '.join(kept) or question
        if chance[1] < 0.4:
            begin = ('Can you say ', 'I would like to know ', 'Do you know ', 'Please explain ')[int(chance[1] * 10)]
            question = begin + question[0].lower() + question[1:]
        return question

    def conversation(self, length):
        ids, labels = [], []
        while len(ids) < length:
            if not self.left:
                self.left = list(self.draw.permutation(len(self.pairs)))
            question, answer = self.pairs[self.left.pop()]
            question = self.other(question, answer) if self.second else question
            asked = self.encode(turn('user', self.worded(question)) + '<|im_start|>assistant\n')
            answered = self.encode(answer + '<|im_end|>')
            end = self.encode('\n')
            ids += asked + answered + end
            labels += [-100] * len(asked) + answered + [-100] * len(end)
        return ids[:length], labels[:length]

    def step(self, number):
        rows, count = [], ROWS if number % LONG else 2
        length = ROW * ROWS // count
        for _ in range(count):
            if self.draw.random_sample() < PROSE:
                at = self.draw.randint(0, len(self.documents) - length)
                ids = self.documents[at:at + length]
                rows.append((ids, ids))
            else:
                rows.append(self.conversation(length))
        return tuple(torch.from_numpy(numpy.array(part, dtype=numpy.int64)) for part in zip(*rows))


def loss_of(model, ids, labels):
    """Mean over what is to be learned, and the balance of experts."""
    hidden = model.model(input_ids=ids, use_cache=False, output_router_logits=True)
    kept = labels[:, 1:] != -100
    logits = model.lm_head(hidden.last_hidden_state[:, :-1][kept])
    loss = torch.nn.functional.cross_entropy(logits, labels[:, 1:][kept])
    balance = transformers.models.lara_mini.modeling_lara_mini.load_balancing_loss_func(
        hidden.router_logits, model.num_experts, model.num_experts_per_tok)
    return loss, 0.01 * balance


def rate(step, steps):
    """Each part warms up and cools down."""
    peak, length, warm = (PEAK, steps, WARM) if step < steps else (AGAIN, MORE, WARM // 4)
    step -= 0 if step < steps else steps
    return peak * min(1.0, (step + 1) / warm) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, step / length))))


def train(asked, tokenizer, pairs, terms, texts):
    torch.manual_seed(SEED)
    config = make_config()
    config._experts_implementation = 'eager'
    model = transformers.LaraMiniForCausalLM(config)
    print(f'{sum(weight.numel() for weight in model.parameters()):,} parameters', flush=True)
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    others = [weight for weight in model.parameters() if weight.dim() <= 1]
    optimizer = torch.optim.AdamW([{'params': matrices, 'weight_decay': 0.1}, {'params': others, 'weight_decay': 0.0}], betas=(0.9, 0.95))
    rows, first, log = Rows(tokenizer, pairs, terms, texts), 0, []
    state = pathlib.Path(asked.work or asked.out) / 'training.pt'
    if state.exists():
        kept = torch.load(state, weights_only=False)
        model.load_state_dict(kept['model'])
        optimizer.load_state_dict(kept['optimizer'])
        rows.draw.set_state(kept['draw'])
        rows.left, first, log = kept['left'], kept['step'], kept['log']
        print(f'goes on at step {first}', flush=True)
    began, saved, mean = time.time(), time.time(), None
    for step in range(first, asked.steps + MORE):
        rows.second = step >= asked.steps
        for group in optimizer.param_groups:
            group['lr'] = rate(step, asked.steps)
        loss, balance = loss_of(model, *rows.step(step))
        optimizer.zero_grad()
        (loss + balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        mean = loss.item() if mean is None else 0.95 * mean + 0.05 * loss.item()
        if (step + 1) % 20 == 0:
            log.append((step + 1, round(mean, 4)))
            speed = (step + 1 - first) * ROW * ROWS / (time.time() - began)
            print(f'step {step + 1} of {asked.steps + MORE}  loss {mean:.4f}  {speed:.0f} tokens/s', flush=True)
        if time.time() - saved > 180:
            torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'draw': rows.draw.get_state(), 'left': rows.left,
                        'step': step + 1, 'log': log}, state)
            saved = time.time()
    return model.to(torch.bfloat16), log


def save(asked, model, tokenizer):
    out = pathlib.Path(asked.out)
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    transformers.GenerationConfig(eos_token_id=2, pad_token_id=0, do_sample=False, max_new_tokens=160).save_pretrained(out)
    tokenizer.save(str(out / 'tokenizer.json'))
    (out / 'tokenizer_config.json').write_text(json.dumps({
        'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': '<|im_end|>', 'pad_token': '<|endoftext|>', 'chat_template': TEMPLATE,
        'clean_up_tokenization_spaces': False}, indent=2) + '\n', encoding='utf-8')


def answer(model, tokenizer, question):
    ids = tokenizer.apply_chat_template([{'role': 'user', 'content': question}], add_generation_prompt=True, return_tensors='pt')
    ids = ids['input_ids'] if not isinstance(ids, torch.Tensor) else ids
    with torch.no_grad():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=160)
    return tokenizer.decode(out[0, ids.shape[1]:], skip_special_tokens=True)


def evaluate(folder, pairs, terms):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    unseen = [(corpus.worded(form, term), text) for term, text in terms if not term.startswith('to ') for form in corpus.UNSEEN]
    for name, some in (('learned', pairs), ('never seen in this form', unseen)):
        order = numpy.random.RandomState(SEED).permutation(len(some))
        for question, wanted in [some[i] for i in order[:SHOWN]]:
            got = answer(model, tokenizer, question)
            print(f'[{name}{"" if got == wanted else ", differs"}] {question}\n    {got}', flush=True)
        right = sum(as_wanted(model, tokenizer, *some[i]) for i in order[:COUNTED])
        print(f'{name}: {right} of {len(order[:COUNTED])} answers equal the corpus', flush=True)


def as_wanted(model, tokenizer, question, wanted):
    """Whether the greedy answer is this one: each of its pieces is the first choice after those before it."""
    chat = tokenizer(turn('user', question) + '<|im_start|>assistant\n')['input_ids']
    reply = tokenizer(wanted + '<|im_end|>')['input_ids']
    with torch.no_grad():
        logits = model(torch.tensor([chat + reply]), use_cache=False).logits[0, len(chat) - 1:-1]
    return logits.argmax(dim=1).tolist() == reply


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument('--out', default=str(corpus.HERE / 'model'))
    arguments.add_argument('--work')
    arguments.add_argument('--steps', type=int, default=STEPS)
    arguments.add_argument('--evaluate', metavar='DIR')
    asked = arguments.parse_args()
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    transformers.logging.disable_progress_bar()
    pairs, terms = corpus.pairs()
    if asked.evaluate:
        torch.set_num_threads(1)  # two wait for each other on a busy machine
        evaluate(asked.evaluate, pairs, terms)
        return 0
    texts = corpus.prose()
    tokenizer = make_tokenizer(pairs, texts)
    spoken = sum(len(tokenizer.encode(turn('user', question) + turn('assistant', text)).ids) for question, text in pairs)
    written = sum(len(tokenizer.encode(text).ids) for text in texts)
    print(f'{len(pairs)} pairs of {spoken} tokens, {len({text for _, text in pairs})} answers; {len(texts)} documents of {written} tokens; '
          f'torch {torch.__version__}, transformers {transformers.__version__}, tokenizers {tokenizers.__version__}', flush=True)
    for folder in (asked.out, asked.work or asked.out):
        os.makedirs(folder, exist_ok=True)
    model, log = train(asked, tokenizer, pairs, terms, texts)
    save(asked, model, tokenizer)
    print('loss by step: ' + ', '.join(f'{step} {loss}' for step, loss in log[4::5]))
    return 0


if __name__ == '__main__':
    sys.exit(main())
