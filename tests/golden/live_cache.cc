#include "tests/golden/live_cache.h"

#include <algorithm>
#include <random>
#include <span>

namespace quire {

LiveCache::LiveCache(quire_config* config, const quire_cache_options& options)
    : depth_(options.step_depth == 0 ? 2 : options.step_depth),
      step_tokens_(options.max_tokens_per_step == 0 ? 8192 : options.max_tokens_per_step) {
  quire_cache* cache = nullptr;
  client::Error error;
  client::check(quire_cache_create(nullptr, config, &options, &cache, &error), error);
  cache_.reset(cache);
}

size_t LiveCache::begin(uint64_t tokens) {
  client::Error error;
  Sequence one;
  client::check(quire_sequence_create(cache_.get(), nullptr, &one.id, &error), error);
  one.tokens = tokens;
  one.prompt.assign(tokens, 7);
  one.prompt[0] = static_cast<quire_symbol>(sequences_.size() + 8);  // from its first token on it is nobody else's
  sequences_.push_back(std::move(one));
  return sequences_.size() - 1;
}

void LiveCache::finish(size_t sequence) {
  client::Error error;
  client::check(quire_sequence_finish(cache_.get(), sequences_[sequence].id, &error), error);
  sequences_[sequence].runs = false;
  sequences_[sequence].prompt = {};
}

void LiveCache::commit_oldest() {
  const Flying flying = std::move(flying_.front());
  flying_.pop_front();
  symbols_.assign(flying.num_symbols, 9);  // what a decode step computed is known by now; prompts came with their chunks
  client::Error error;
  client::check(quire_commit(flying.step, flying.rows.data(), flying.rows.size(), symbols_.data(), symbols_.size(), &error), error);
}

void LiveCache::settle() {
  while (!flying_.empty()) commit_oldest();
}

bool LiveCache::step(uint32_t decode, size_t prompt, uint64_t most) {
  if (flying_.size() == depth_) commit_oldest();
  entries_.clear();
  numbers_.clear();
  for (size_t i = 0; decode > 0 && i < sequences_.size(); ++i) {
    if (!sequences_[i].runs) continue;
    quire_reserve_entry entry{};
    entry.sequence = sequences_[i].id;
    entry.num_tokens = decode;
    entries_.push_back(entry);
    numbers_.push_back(i);
  }
  std::span<const quire_symbol> symbols;
  if (prompt != kNone) {
    const Sequence& one = sequences_[prompt];
    quire_reserve_entry entry{};
    entry.sequence = one.id;
    entry.num_tokens = static_cast<uint32_t>(std::min({one.tokens - one.reserved, uint64_t{step_tokens_}, most}));
    entry.symbols_position = entry.symbols_offset = one.reserved;
    entry.num_symbols = static_cast<uint32_t>(one.tokens - one.reserved);
    if (one.reserved == 0) entry.flags = QUIRE_ENTRY_MATCH;
    if (entry.num_tokens == one.tokens - one.reserved) entry.flags |= QUIRE_ENTRY_PROMPT_END;
    entries_.push_back(entry);
    numbers_.push_back(prompt);
    symbols = one.prompt;
  }
  results_.assign(entries_.size(), quire_reserve_result{});
  Flying flying{};
  client::Error error;
  client::check(
      quire_reserve(cache_.get(), entries_.data(), entries_.size(), symbols.data(), symbols.size(), results_.data(), &flying.step, &error),
      error);
  bool all = true;
  uint64_t num_decoded = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const quire_reserve_result& result = results_[i];
    Sequence& one = sequences_[numbers_[i]];
    if (result.code != QUIRE_OK && result.code != QUIRE_NOT_READY) {
      all = all && !one.runs && ++refusals_ <= depth_ && !flying_.empty();
    } else if (result.code == QUIRE_OK) {
      flying.rows.push_back(quire_commit_entry{one.id, result.position, num_decoded, one.runs ? result.num_tokens : 0, result.num_tokens});
      num_decoded += one.runs ? result.num_tokens : 0;
      one.reserved = result.position + result.num_tokens;
      if (!one.runs) refusals_ = 0;
      if (!one.runs && one.reserved == one.tokens) {
        one.runs = true;
        one.prompt = {};
      }
    }
  }
  flying.num_symbols = num_decoded;
  if (flying.step.owner != nullptr) {
    flying_.push_back(std::move(flying));
  } else if (!flying_.empty()) {
    commit_oldest();
  }
  return all;
}

void LiveCache::verify() {
  client::Error error;
  client::check(quire_cache_verify(cache_.get(), &error), error);
}

uint64_t live_resident(quire_config* config, const quire_cache_options& options, uint64_t tokens) {
  LiveCache live(config, options);
  for (uint64_t n = 0; n < options.max_sequences; ++n) {
    const size_t one = live.begin(tokens);
    while (live.left(one) > 0) {
      if (!live.step(0, one)) return n;
    }
  }
  return options.max_sequences;
}

bool live_decodes(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences) {
  LiveCache live(config, options);
  const uint32_t row = options.num_state_branches + 1;
  // Each begins so long before the end that all are as long as asked when the last step is reserved.
  const uint64_t last = std::min<uint64_t>(24, tokens / 2 / row), room = (tokens - tokens / 8) / row - last;
  const uint64_t per_step = sequences / std::max<uint64_t>(room, 1) + 1;
  uint64_t steps = (sequences - 1) / per_step + last;
  for (uint64_t i = 0; i < sequences; ++i) {
    const bool decode = i > 0 && i % per_step == 0;
    if (decode) --steps;
    const size_t one = live.begin(tokens - steps * row);
    for (bool first = true; live.left(one) > 0; first = false) {
      if (!live.step(first && decode ? row : 0, one)) return false;
    }
  }
  for (; steps > 0; --steps) {
    if (!live.step(row)) return false;
  }
  return true;
}

bool live_serves(quire_config* config, const quire_cache_options& options, uint64_t tokens, uint64_t sequences, uint64_t steps,
                 uint64_t seed) {
  LiveCache live(config, options);
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  std::vector<size_t> all;
  for (uint64_t s = 0; s < steps; ++s) {
    if (all.size() < sequences) {
      all.push_back(live.begin(below(4) == 0 ? 1 + below(tokens) : tokens - std::min<uint64_t>(tokens - 1, 1 + below(64))));
    }
    // The youngest whose prompt is not computed, or any.
    size_t prompt = LiveCache::kNone;
    for (size_t tries = 0; tries < 4 && prompt == LiveCache::kNone; ++tries) {
      const size_t i = tries == 0 ? all.size() - 1 : below(all.size());
      if (live.left(all[i]) > 0) prompt = all[i];
    }
    const bool decode = below(3) != 0;
    if (!live.step(decode ? 1 : 0, prompt, below(3) == 0 ? 1 + below(1000) : UINT64_MAX)) return false;
    for (size_t i = 0; i < all.size(); ++i) {
      if (live.length(all[i]) < tokens && below(50 * sequences) != 0) continue;
      live.finish(all[i]);
      all[i] = all.back();
      all.pop_back();
    }
  }
  live.settle();
  live.verify();
  return true;
}

}  // namespace quire
