#include "stepper.h"

#include <algorithm>

#include "lm_error.h"

namespace lm {

Live Stepper::begin(std::vector<int32_t> tokens, std::string_view salt) const {
  auto identity = quire::make<quire_identity>();
  identity.salt = quire::text(salt);
  Live live;
  live.sequence = kv_.cache().create_sequence(identity);
  live.tokens = std::move(tokens);
  return live;
}

Live Stepper::fork(const Live& parent) const {
  Live child;
  child.sequence = parent.sequence.fork();
  child.tokens = parent.tokens;
  child.encoder_input = parent.encoder_input;
  refresh(child);
  return child;
}

void Stepper::refresh(Live& live) const {
  const quire_sequence_info info = live.sequence.info();
  live.committed = info.committed;
  live.reserved = info.reserved;
  live.known = info.known;
  live.hit_tokens = info.hit_tokens;
}

Flight Stepper::reserve(std::span<const Ask> asks) const {
  Flight flight;
  std::vector<quire_reserve_entry> entries;
  std::vector<quire_symbol> symbols;
  for (const Ask& ask : asks) {
    const Live& live = *ask.live;
    // A match reads the whole prompt; otherwise the symbols up to the end of this step.
    const bool whole = (ask.flags & QUIRE_ENTRY_MATCH) != 0;
    const uint64_t end = whole ? live.tokens.size()
                               : std::min<uint64_t>(live.reserved + ask.tokens, live.tokens.size());
    quire_reserve_entry entry{};
    entry.sequence = live.sequence.id();
    entry.symbols_position = live.known;
    entry.symbols_offset = symbols.size();
    entry.num_symbols = end > live.known ? static_cast<uint32_t>(end - live.known) : 0;
    entry.num_tokens = ask.tokens;
    entry.flags = ask.flags;
    if (live.reserved == 0 && live.encoder_input)
      entry.encoder_tokens = static_cast<uint64_t>(family_.encoder_tokens(*live.encoder_input));
    for (uint64_t p = live.known; p < end; ++p)
      symbols.push_back(static_cast<quire_symbol>(live.tokens[p]));
    entries.push_back(entry);
  }
  flight.results.resize(entries.size());
  flight.step = kv_.cache().reserve(entries, symbols, flight.results);
  flight.rows.resize(static_cast<size_t>(
      std::count_if(flight.results.begin(), flight.results.end(),
                    [](const quire_reserve_result& r) { return r.code == QUIRE_OK; })));
  for (size_t i = 0; i < asks.size(); ++i) {
    const quire_reserve_result& result = flight.results[i];
    if (result.code != QUIRE_OK) continue;
    flight.rows.at(result.row) = {asks[i].live, result.position, result.num_tokens,
                                  result.hit_tokens};
    refresh(*asks[i].live);
  }
  for (const StepRow& row : flight.rows) {
    const auto first = row.live->tokens.begin() + static_cast<int64_t>(row.position);
    flight.ids.insert(flight.ids.end(), first, first + row.tokens);
  }
  return flight;
}

void Stepper::run(Flight& flight, Logits wanted) const {
  std::vector<uint32_t> tails;
  for (const StepRow& row : flight.rows) tails.push_back(wanted == Logits::kAll ? row.tokens : 1);
  run(flight, tails);
}

void Stepper::run(Flight& flight, std::span<const uint32_t> wanted) const {
  std::vector<const Matrix*> inputs;
  for (const StepRow& row : flight.rows) {
    if (row.position == 0) inputs.push_back(row.live->encoder_input.get());
  }
  const Pass pass(kv_, flight.step, flight.ids, inputs);
  const Matrix hidden = family_.forward(pass);
  std::vector<int64_t> tails;
  int64_t end = 0;
  for (size_t i = 0; i < flight.rows.size(); ++i) {
    end += flight.rows[i].tokens;
    flight.first_logits.push_back(static_cast<int64_t>(tails.size()));
    for (int64_t token = end - wanted[i]; token < end; ++token) tails.push_back(token);
  }
  const bool all = static_cast<int64_t>(tails.size()) == hidden.rows;
  if (!tails.empty()) flight.logits = family_.logits(all ? hidden : gather(hidden, tails));
}

void Stepper::commit(Flight& flight, std::span<const uint32_t> accepted) const {
  std::vector<quire_commit_entry> entries;
  for (size_t i = 0; i < flight.rows.size(); ++i) {
    quire_commit_entry entry{};
    entry.sequence = flight.rows[i].live->sequence.id();
    entry.num_accepted = accepted.empty() ? flight.rows[i].tokens : accepted[i];
    entries.push_back(entry);
  }
  flight.step.commit(entries);
  for (const StepRow& row : flight.rows) refresh(*row.live);
}

void Stepper::abort(Flight& flight) const {
  flight.step.abort();
  for (const StepRow& row : flight.rows) refresh(*row.live);
}

void Stepper::preempt(Live& live) const {
  live.sequence.preempt();
  refresh(live);
}

void Stepper::truncate(Live& live, uint64_t tokens) const {
  live.sequence.truncate(tokens);
  refresh(live);
}

}  // namespace lm
