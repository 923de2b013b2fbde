#include "tests/golden/directed_cache.h"

#include <algorithm>

namespace quire {

DirectedCache::DirectedCache(quire_config* config, const quire_cache_options& options)
    : depth_(options.step_depth == 0 ? 2 : options.step_depth),
      step_tokens_(options.max_tokens_per_step == 0 ? 8192 : options.max_tokens_per_step) {
  quire_cache* cache = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config, &options, &cache, &error), error);
  cache_.reset(cache);
}

size_t DirectedCache::begin(uint32_t flags) {
  auto identity = client::sized<quire_identity>();
  identity.flags = flags;
  client::Error error;
  Sequence one;
  client::check(quire_sequence_create(cache_.get(), &identity, &one.id, &error), error);
  sequences_.push_back(one);
  return sequences_.size() - 1;
}

void DirectedCache::finish(size_t sequence) {
  client::Error error;
  client::check(quire_sequence_finish(cache_.get(), sequences_[sequence].id, &error), error);
  sequences_[sequence].ended = true;
}

bool DirectedCache::reserve(std::span<const Row> rows) {
  entries_.clear();
  for (const Row& row : rows) {
    quire_reserve_entry entry{};
    entry.sequence = sequences_[row.sequence].id;
    entry.num_tokens = row.tokens;
    entry.num_look_ahead = row.look_ahead;
    entry.flags = row.flags;
    entries_.push_back(entry);
  }
  results_.assign(entries_.size(), quire_reserve_result{});
  Flying flying{};
  client::Error error;
  client::check(quire_reserve(cache_.get(), entries_.data(), entries_.size(), nullptr, 0, results_.data(), &flying.step, &error), error);
  bool all = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    all = all && results_[i].code == QUIRE_OK;
    if (results_[i].code != QUIRE_OK) continue;
    Row granted = rows[i];
    granted.tokens = results_[i].num_tokens;
    if (granted.tokens < rows[i].tokens) granted.rejected = 0;
    sequences_[granted.sequence].reserved += granted.tokens;
    ++sequences_[granted.sequence].in_flight;
    flying.rows.push_back(granted);
  }
  if (flying.step.owner != nullptr) flying_.push_back(std::move(flying));
  return all;
}

void DirectedCache::commit() {
  const Flying flying = std::move(flying_.front());
  flying_.pop_front();
  commits_.clear();
  symbols_.clear();
  for (const Row& row : flying.rows) {
    Sequence& one = sequences_[row.sequence];
    const uint32_t accepted = row.tokens - row.rejected;
    --one.in_flight;
    if (!one.ended) one.reserved -= row.rejected;
    commits_.push_back(quire_commit_entry{one.id, one.known, symbols_.size(), one.ended ? 0 : accepted, accepted});
    if (one.ended) continue;
    for (uint32_t i = 0; i < accepted; ++i) {  // from its first token on it is nobody else's
      symbols_.push_back(one.known + i == 0 ? static_cast<quire_symbol>(row.sequence + 8) : 7);
    }
    one.known += accepted;
  }
  client::Error error;
  client::check(quire_commit(flying.step, commits_.data(), commits_.size(), symbols_.data(), symbols_.size(), &error), error);
}

void DirectedCache::settle() {
  while (!flying_.empty()) commit();
}

void DirectedCache::forget() {
  client::Error error;
  client::check(quire_cache_reset(cache_.get(), &error), error);
}

void DirectedCache::abort(size_t steps) {
  const size_t first = flying_.size() - steps;
  client::Error error;
  client::check(quire_abort(flying_[first].step, 0, &error), error);
  for (; flying_.size() > first; flying_.pop_back()) {
    for (const Row& row : flying_.back().rows) {
      --sequences_[row.sequence].in_flight;
      if (!sequences_[row.sequence].ended) sequences_[row.sequence].reserved -= row.tokens;
    }
  }
}

bool DirectedCache::fill(size_t sequence, uint64_t tokens) {
  while (length(sequence) < tokens) {
    const Row row{sequence, static_cast<uint32_t>(std::min<uint64_t>(tokens - length(sequence), step_tokens_)), QUIRE_ENTRY_NO_STOP};
    if (!reserve(std::span(&row, 1))) return false;
    settle();
  }
  return true;
}

uint64_t DirectedCache::pages_with(size_t sequence, uint32_t tokens) {
  if (tokens == 0) return pages();
  const Row row{sequence, tokens, QUIRE_ENTRY_NO_STOP};
  if (!reserve(std::span(&row, 1))) return 0;
  const uint64_t found = pages();
  abort(1);
  return found;
}

uint64_t DirectedCache::pages() {
  auto stats = client::sized<quire_cache_stats>();
  client::Error error;
  client::check(quire_cache_get_stats(cache_.get(), &stats, &error), error);
  return stats.pages_used + 1;
}

void DirectedCache::verify() {
  client::Error error;
  client::check(quire_cache_verify(cache_.get(), &error), error);
}

}  // namespace quire
