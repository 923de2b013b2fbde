// Calls that are no steps: sequences come and go, pins, what is forgotten, and checks.
#include <algorithm>
#include <string>

#include "tests/stamps/runner.h"

namespace quire::stamps {
namespace {

// While a load is in progress its sequence stays as it is.
bool refused_while_loading(quire_code code) {
  demand(code == QUIRE_FAILED_PRECONDITION, "a call on a sequence that is loading");
  return false;
}

}  // namespace

void Runner::open() {
  if (sequences_.size() >= limits_.running) return;
  Sequence s;
  s.owner = owners_[dice_.below(owners_.size())];
  if (dice_.percent(4)) s.flags |= QUIRE_SEQUENCE_NO_MATCH;
  if (dice_.percent(6)) s.flags |= QUIRE_SEQUENCE_NO_PUBLISH;
  s.text = History(s.owner.root());
  const uint64_t longest = limits_.longest;
  for (const quire_symbol symbol : phrases_.prompt(std::max<uint64_t>(longest - std::min<uint64_t>(longest / 4, 8), 1)))
    s.text.append(symbol);
  s.prompt = s.text.size();
  s.goal = std::min(longest, s.prompt + (dice_.percent(80) ? dice_.below(12) : dice_.below(80)));
  rewrite(&s, s.prompt);
  const quire_identity identity = s.owner.describe(s.flags);
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_sequence_create(cache_.get(), &identity, &s.id, &err);
  if (code == QUIRE_RESOURCE_EXHAUSTED) return;  // every root is in use
  must_call(code, err, "create");
  empty(&s);
  s.family = s.life;
  trace("open", s.id, s.prompt, s.goal);
  sequences_.push_back(std::move(s));
  tallies_.count(kOpened);
}

// False: a load is in progress.
bool Runner::finish_one(size_t index) {
  Sequence& s = sequences_[index];
  quire_error err = QUIRE_INIT(quire_error);
  if (s.fetch != 0) return false;
  if (s.loading) return refused_while_loading(quire_sequence_finish(cache_.get(), s.id, &err));
  trace("finish", s.id);
  keep_text(s);
  must_call(quire_sequence_finish(cache_.get(), s.id, &err), err, "finish");
  tallies_.count(s.in_flight > 0 ? kFinishedInFlight : kFinished);
  phrases_.remember(s.text.symbols(), s.committed);
  found_again(s);
  sequences_.erase(sequences_.begin() + static_cast<long>(index));
  return true;
}

// Mostly one that has all of its tokens.
void Runner::finish() {
  if (sequences_.empty()) return;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].committed >= sequences_[i].goal) return static_cast<void>(finish_one(i));
  }
  if (dice_.percent(20)) (void)finish_one(dice_.below(sequences_.size()));
}

bool Runner::preempt_one(Sequence* s) {
  quire_error err = QUIRE_INIT(quire_error);
  if (s->fetch != 0) return false;
  if (s->loading) return refused_while_loading(quire_sequence_preempt(cache_.get(), s->id, &err));
  trace("preempt", s->id);
  keep_text(*s);
  must_call(quire_sequence_preempt(cache_.get(), s->id, &err), err, "preempt");
  tallies_.count(kPreempted);
  ++counters_.preemptions;
  empty(s);
  agree(*s);
  return true;
}

void Runner::preempt() {
  if (!sequences_.empty()) (void)preempt_one(&sequences_[dice_.below(sequences_.size())]);
}

void Runner::fork() {
  if (sequences_.empty() || sequences_.size() >= limits_.running) return;
  const Sequence& parent = sequences_[dice_.below(sequences_.size())];
  if (parent.fetch != 0) return;
  Sequence child = parent;
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_sequence_fork(cache_.get(), parent.id, &child.id, &err);
  if (parent.loading) return static_cast<void>(refused_while_loading(code));
  trace("fork", parent.id, child.id, static_cast<uint64_t>(code));
  if (code == QUIRE_RESOURCE_EXHAUSTED || (code == QUIRE_FAILED_PRECONDITION && limits_.in_place && parent.in_flight > 0)) return;
  must_call(code, err, "fork");
  tallies_.count(kForked);
  ++counters_.forks;
  child.life = next_life_++;
  child.in_flight = 0;
  child.reserved = child.committed;
  child.known = std::min(child.known, child.committed);
  // The token after the common ones stays: what drafts wrote for the last of them depends on it.
  rewrite(&child, std::max(child.committed + 1, child.prompt));
  agree(child);
  sequences_.push_back(std::move(child));
}

void Runner::truncate() {
  if (sequences_.empty()) return;
  Sequence& s = sequences_[dice_.below(sequences_.size())];
  if (s.in_flight > 0 || s.committed == 0) return;
  const uint64_t tokens = dice_.percent(15) ? 0 : s.committed - dice_.below(std::min<uint64_t>(s.committed, 12));
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_sequence_truncate(cache_.get(), s.id, tokens, &err);
  trace("truncate", s.id, tokens, static_cast<uint64_t>(code));
  if (s.loading) return static_cast<void>(refused_while_loading(code));
  if (code == QUIRE_FAILED_PRECONDITION || (code == QUIRE_OUT_OF_RANGE && plan_.states)) return agree(s);
  must_call(code, err, "truncate");
  tallies_.count(kTruncated);
  keep_text(s);
  phrases_.remember(s.text.symbols(), s.committed);
  if (tokens == 0) {
    empty(&s);
  } else {
    s.committed = s.reserved = tokens;
    s.whole = false;
    s.known = std::min(s.known, tokens);
    if (tokens >= s.prompt) rewrite(&s, tokens + 1);
  }
  agree(s);
}

void Runner::pin() {
  if (pins_.size() >= 6) return;
  Pin pin;
  pin.owner = owners_[dice_.below(owners_.size())];
  pin.symbols = phrases_.known();
  if (!sequences_.empty() && dice_.percent(60)) {
    const Sequence& s = sequences_[dice_.below(sequences_.size())];
    pin.owner = s.owner;
    pin.symbols.assign(s.text.symbols().begin(), s.text.symbols().begin() + static_cast<long>(std::max(s.committed, s.prompt)));
  }
  quire_pin_options options = QUIRE_INIT(quire_pin_options);
  pin.hard = dice_.percent(25);
  options.priority = pin.hard ? QUIRE_PIN_HARD : dice_.small(0, 3);
  if (pins_end_ && clock_dice_.percent(60)) {
    options.duration_ns = clock_dice_.between(1, 400);
    pin.deadline = time_ + static_cast<int64_t>(options.duration_ns);
    tallies_.count(kPinnedForATime);
  }
  const quire_identity identity = pin.owner.describe(0);
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_pin(cache_.get(), &identity, pin.symbols.data(), pin.symbols.size(), &options, &pin.tokens, &pin.id, &err);
  if (code == QUIRE_NOT_FOUND || code == QUIRE_RESOURCE_EXHAUSTED || code == QUIRE_FAILED_PRECONDITION) return;
  must_call(code, err, "pin");
  trace("pin", pin.id, pin.tokens, pin.hard ? 1 : 0);
  tallies_.count(pin.hard ? kPinnedHard : kPinned);
  demand(pin.tokens > 0 && pin.tokens <= pin.symbols.size(), "tokens of a pin");
  History history(pin.owner.root());
  for (uint64_t i = 0; i < pin.tokens; ++i) history.append(pin.symbols[i]);
  demand(computed_.knows(history, pin.tokens), "a pin of tokens that nobody computed");
  pin.symbols.resize(pin.tokens);
  pin.symbols.push_back(phrases_.next());
  check_pin(pin);
  pins_.push_back(std::move(pin));
}

// Drafts need one block more than a pin holds.
void Runner::check_pin(const Pin& pin) {
  quire_pin_info info = QUIRE_INIT(quire_pin_info);
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_pin_get_info(cache_.get(), pin.id, &info, &err);
  if (overdue(pin)) return demand(code == QUIRE_NOT_FOUND, "a pin is there after its time");
  if (code == QUIRE_NOT_FOUND && !pin.hard) return;  // it was given up
  must_call(code, err, "pin info");
  demand(info.tokens == pin.tokens || pin.loose, "tokens of a pin have changed");
  demand(info.deadline_ns == pin.deadline, "the deadline of a pin has changed");
  if (pin.loose || plan_.drafts) return;
  demand(probed(pin.owner, pin.symbols, pin.symbols.size()) == pin.tokens, "what is pinned is not found");
}

void Runner::unpin() {
  if (pins_.empty()) return;
  const size_t i = dice_.below(pins_.size());
  check_pin(pins_[i]);
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_unpin(cache_.get(), pins_[i].id, &err);
  trace("unpin", pins_[i].id);
  if (code != QUIRE_NOT_FOUND || (pins_[i].hard && !overdue(pins_[i]))) must_call(code, err, "unpin");
  tallies_.count(kUnpinned);
  pins_.erase(pins_.begin() + static_cast<long>(i));
}

void Runner::probe() {
  const Owner& owner = owners_[dice_.below(owners_.size())];
  const std::vector<quire_symbol>& symbols = phrases_.known();
  const uint64_t tokens = probed(owner, symbols, symbols.size());
  tallies_.count(kProbed);
  demand(tokens < std::max<uint64_t>(symbols.size(), 1), "a probe that leaves nothing to compute");
  History history(owner.root());
  for (uint64_t i = 0; i < tokens; ++i) history.append(symbols[i]);
  demand(computed_.knows(history, tokens), "a probe finds tokens that nobody computed");
}

void Runner::reset() {
  if (!in_flight_.empty()) return;
  quire_error err = QUIRE_INIT(quire_error);
  const quire_code code = quire_cache_reset(cache_.get(), &err);
  if (code == QUIRE_FAILED_PRECONDITION && (!loads_.empty() || tiers_ != nullptr)) return;
  must_call(code, err, "reset");
  trace("reset");
  for (Sequence& s : sequences_) s.whole = false;
  tallies_.count(kReset);
  pins_.clear();
  const bool held = !holds_.empty() || !lates_.empty() || !units_.empty() ||
                    std::any_of(sequences_.begin(), sequences_.end(), [](const Sequence& s) { return s.reserved > 0 || s.loading; });
  if (held || tiers_ != nullptr) return;  // what tiers have is found again
  computed_.forget();
  demand(stats().parts_cached == 0, "content is cached behind a reset");
}

void Runner::forget() {
  const auto group = static_cast<uint32_t>(dice_.below(plan_.groups.size()));
  std::vector<int32_t> ids;
  for (uint64_t i = dice_.between(1, 3); i > 0; --i) {
    const uint64_t parts = plan_.groups[group].parts_per_page;
    ids.push_back(static_cast<int32_t>(dice_.between(parts, plan_.info.num_pages * parts - 1)));
  }
  quire_error err = QUIRE_INIT(quire_error);
  uint64_t forgotten = 0;
  must_call(quire_cache_forget_blocks(cache_.get(), group, ids.data(), ids.size(), &forgotten, &err), err, "forget");
  trace("forget", group, forgotten);
  tallies_.count(kForgot);
  for (Pin& pin : pins_) pin.loose = true;
  // Who uses one of the blocks publishes no more, though it was not published itself.
  for (Sequence& s : sequences_) s.whole = false;
}

// The weights of one owner change: its earlier content must not be found again.
void Runner::renew() {
  Owner& owner = owners_[dice_.below(owners_.size())];
  owner.epoch += 2;
  trace("renew", owner.epoch);
  tallies_.count(kRenewed);
}

void Runner::check() {
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_cache_verify(cache_.get(), &err), err, "verify");
  tallies_.count(kVerified);
  for (const Pin& pin : pins_) check_pin(pin);
  std::erase_if(pins_, [this](const Pin& pin) { return overdue(pin); });
  for (const Sequence& s : sequences_) {
    if (!s.loading) agree(s);
  }
  count_alike();
  check_holds();
  if (onlookers_.events == nullptr) return;
  onlookers_.events->compare();
  tallies_.count(kViewed);
}

}  // namespace quire::stamps
