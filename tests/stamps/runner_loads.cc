// Loads: a connector brings a part of a prompt, all of it or not, while steps are in flight.
#include <algorithm>

#include "tests/stamps/runner.h"

namespace quire::stamps {

void Runner::begin_load() {
  if (sequences_.empty() || loads_.size() >= 4) return;
  Sequence& s = sequences_[dice_.below(sequences_.size())];
  if (s.loading || s.in_flight > 0 || s.reserved + 1 >= s.prompt) return;
  quire_reserve_entry e{};
  const uint64_t rest = s.prompt - 1 - s.reserved;
  e.sequence = s.id;
  e.symbols_position = s.known;
  e.num_tokens = static_cast<uint32_t>(dice_.percent(40) ? rest : dice_.between(1, rest));
  e.encoder_tokens = s.reserved == 0 ? s.encoder : 0;
  uint64_t end = std::max(s.known, s.reserved + e.num_tokens);
  if (s.fresh() && dice_.percent(90)) {
    e.flags = QUIRE_ENTRY_MATCH;
    end = s.prompt;
  }
  e.num_symbols = static_cast<uint32_t>(end - s.known);
  symbols_.assign(s.text.symbols().begin() + static_cast<long>(s.known), s.text.symbols().begin() + static_cast<long>(end));
  if (dice_.percent(20)) e.flags |= QUIRE_ENTRY_KEEP_STATE;
  quire_error err = QUIRE_INIT(quire_error);
  quire_reserve_result got{};
  TakenStep load;
  const quire_code code = quire_load_begin(cache_.get(), &e, symbols_.data(), symbols_.size(), &got, &load.step, &err);
  if (tiers_ != nullptr && code == QUIRE_RESOURCE_EXHAUSTED) return;  // theirs are loads, too
  if (loads_.size() == limits_.loads) return demand(code == QUIRE_RESOURCE_EXHAUSTED, "a load too many");
  must_call(code, err, "begin of a load");
  trace("load", s.id, got.position, got.num_tokens);
  if (got.code != QUIRE_OK) {
    demand(got.code == QUIRE_RESOURCE_EXHAUSTED && load.step.id == 0, "the code of a refused load");
    ++counters_.refused_entries;
    return tallies_.count(kRefused);
  }
  if ((e.flags & QUIRE_ENTRY_MATCH) != 0) hit(e, got, &s);
  demand(got.position == s.reserved && got.num_tokens >= 1 && got.num_tokens <= e.num_tokens, "tokens of a load");
  demand(got.num_tokens <= limits_.load_tokens, "a load is longer than loads may be");
  load.rows.push_back(row_of(s, got.position, got.position + got.num_tokens));
  s.loading = true;
  s.whole = false;
  take(&load);
  // A page that an earlier step zeroes may have parts for the load.
  carry_out_until(in_flight_.size());
  bytes_->prepare(&load);
  check_have(load);
  if (onlookers_.uploaded != nullptr) onlookers_.uploaded->upload(load);
  loads_.push_back(std::move(load));
  tallies_.count(kLoaded);
}

// What need not be brought has no slots, and its bytes are there.
void Runner::check_have(const TakenStep& load) {
  const TakenRow& row = load.rows[0];
  std::vector<uint64_t> have(plan_.groups.size());
  uint64_t count = 0;
  quire_error err = QUIRE_INIT(quire_error);
  must_call(quire_load_get_have(load.step, have.data(), have.size(), &count, &err), err, "what a load has");
  demand(count == have.size(), "groups of a load");
  bool shared = false;
  for (uint32_t g = 0; g < have.size(); ++g) {
    const quire_group_info& group = plan_.groups[g];
    demand(have[g] >= row.position && have[g] <= row.end, "what a load has lies outside of it");
    shared = shared || have[g] > row.position;
    if (group.is_state != 0 || group.encoder_tokens != 0) {
      demand(have[g] == row.position, "what a load has of states or encoders");
      continue;
    }
    const uint32_t shard = shard_with(plan_, g);
    const quire_batch& batch = load.shards[shard].batches[g];
    for (uint64_t p = row.position; p < row.end; ++p) {
      const uint64_t block = p / group.kernel_block_tokens;
      const bool in_table = !bytes_->is_null(shard, g, block, batch.table[block]);
      const bool has_slot = batch.slots[p - row.position] >= 0;
      demand(has_slot == (in_table && p >= have[g]), "slots of a load");
    }
  }
  bytes_->check_shared(load);
  if (shared) tallies_.count(kShared);
}

void Runner::end_load() {
  if (loads_.empty()) return;
  const size_t i = dice_.below(loads_.size());
  const TakenRow& row = loads_[i].rows[0];
  std::vector<quire_load_failure> failures;
  if (!mode_.quiet && dice_.percent(40)) {
    for (uint64_t n = dice_.between(1, 3); n > 0; --n) {
      const auto group = static_cast<uint32_t>(dice_.below(plan_.groups.size()));
      // Of encoders the positions are those of the encoder's tokens.
      const bool cross = plan_.groups[group].encoder_tokens != 0;
      const uint64_t begin = cross ? 0 : row.position, end = cross ? row.encoder : row.end;
      const uint64_t first = dice_.between(begin, end - 1);
      failures.push_back({group, 0, first, dice_.between(1, std::min<uint64_t>(9, end - first))});
    }
    tallies_.count(kFailed);
  }
  bytes_->bring(loads_[i], failures);
  quire_error err = QUIRE_INIT(quire_error);
  uint64_t committed = 0;
  quire_hold_id late = 0;
  const bool leaves = lets_late_ && !mode_.quiet && hold_dice_.percent(70);
  must_call(quire_load_end(loads_[i].step, failures.data(), failures.size(), &committed, leaves ? &late : nullptr, &err), err,
            "end of a load");
  trace("loaded", row.id, committed, failures.size());
  demand(committed >= row.position && committed <= row.end, "tokens that a load brought");
  demand(!failures.empty() || committed == row.end, "all tokens of a load arrived");
  Sequence& s = *alive(row);
  s.loading = false;
  s.committed = s.reserved = committed;
  s.known = committed < row.end ? committed : std::max(s.known, row.end);
  if ((s.flags & QUIRE_SEQUENCE_NO_PUBLISH) == 0) computed_.note(s.text, 0, committed);
  agree(s);
  done(loads_[i]);
  TakenStep load = std::move(loads_[i]);
  loads_.erase(loads_.begin() + static_cast<long>(i));
  if (leaves) leave_late(std::move(load), failures, late);
}

}  // namespace quire::stamps
