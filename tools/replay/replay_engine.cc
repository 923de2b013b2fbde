#include "replay/replay_engine.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string>

#include "client/client.h"
#include "replay/replay_tier.h"

namespace quire::replay {

using Clock = std::chrono::steady_clock;

template <typename Call>
void Engine::timed(Call call) {
  client::Error error;
  const auto start = Clock::now();
  const quire_code code = call(&error);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result_.seconds += seconds;
  result_.max_us = std::max(result_.max_us, seconds * 1e6);
  client::check(code, error);
}

Engine::Engine(quire_cache* cache, const std::vector<Request>& trace, const Options& options)
    : cache_(cache), trace_(trace), options_(options) {
  result_.hits.resize(trace.size());
  result_.found.resize(trace.size());
}

uint64_t Engine::tokens_to_prefill() const {
  uint64_t tokens = 0;
  for (const Running& one : waiting_) tokens += trace_[one.index].input_length;
  for (const Running& one : running_) tokens += trace_[one.index].input_length - std::min(one.position, trace_[one.index].input_length);
  return tokens;
}

const std::vector<uint64_t>& Engine::step() {
  ended_.clear();
  admit();
  reserve_and_commit();
  if (options_.tier != nullptr) options_.tier->store();
  follow();
  return ended_;
}

void Engine::take_sample() {
  client::Error error;
  auto stats = client::sized<quire_cache_stats>();
  client::check(quire_cache_get_stats(cache_, &stats, &error), error);
  Sample s;
  s.requests = result_.requests;
  s.steps = result_.steps;
  s.prompt_tokens = result_.prompt_tokens;
  s.hit_tokens = result_.hit_tokens;
  std::copy(std::begin(result_.misses), std::end(result_.misses), std::begin(s.misses));
  s.preemptions = result_.preemptions;
  s.evicted_pages = stats.evicted_pages;
  s.hand_overs = stats.hand_overs;
  s.pages_used = stats.pages_used;
  s.pages_evictable = stats.pages_evictable;
  s.pages_free = stats.pages_free;
  s.checkpoint_bytes = stats.checkpoint_bytes;
  s.running = running_.size();
  for (uint32_t group = 0; group < options_.num_groups; ++group) {
    auto pages = client::sized<quire_group_stats>();
    client::check(quire_cache_get_group_stats(cache_, group, &pages, &error), error);
    s.groups.push_back({pages.pages_used, pages.pages_cached});
  }
  result_.series.push_back(s);
}

// One more request has ended.
void Engine::sample() {
  const uint64_t before = (result_.requests - 1) * options_.samples / trace_.size();
  if (result_.requests * options_.samples / trace_.size() != before) take_sample();
}

// From the step in which it is first computed.
void Engine::follow() {
  if (options_.follow >= trace_.size() || followed_done_) return;
  const auto is_it = [this](const Running& one) { return one.index == options_.follow; };
  const auto at = std::find_if(running_.begin(), running_.end(), is_it);
  Moment now{result_.steps, 0, "waiting"};
  if (at != running_.end() && at->matched) {
    now.tokens = at->position;
    now.phase = at->position < at->prompt ? "prompt" : "output";
  } else if (result_.followed.empty()) {
    return;
  } else if (at == running_.end() && std::none_of(waiting_.begin(), waiting_.end(), is_it)) {
    now.tokens = result_.followed.back().tokens;
    now.phase = "done";
    followed_done_ = true;
  }
  result_.followed.push_back(now);
}

uint64_t Engine::output_length(const Running& one) const { return std::min(trace_[one.index].output_length, options_.max_output); }

void Engine::admit() {
  while (!waiting_.empty() && !full_ && running_.size() < options_.concurrency) {
    Running one = waiting_.front();
    if (one.sequence == 0) timed([&](quire_error* error) { return quire_sequence_create(cache_, nullptr, &one.sequence, error); });
    one.prompt = trace_[one.index].input_length + one.generated;
    waiting_.pop_front();
    if (options_.tier != nullptr && !fetch(&one) && !running_.empty()) {
      waiting_.push_front(one);
      full_ = true;  // until a request ends
      break;
    }
    running_.push_back(one);
  }
}

// For how many tokens there must be room when the request begins; 0: for those of its first chunk. Beside its prompt these are the tokens
// that it and those that run or begin before it will generate if each generates as many as the mean of those that ended. All are asked for
// as tokens of this request, so at most to the length of the longest sequence, and of a window or a state only once.
uint64_t Engine::full_tokens(const Running& one) const {
  if (!options_.whole_prompts) return 0;
  const auto alone = static_cast<double>(one.prompt + 1);
  const auto left = [this](const Running& of) { return std::max(0.0, mean_output_ - static_cast<double>(of.generated)); };
  double more = left(one);
  bool beside = false, before = true;
  for (const Running& other : running_) {
    before = before && other.sequence != one.sequence;
    if (other.sequence == one.sequence) continue;
    beside = true;
    if (other.matched || before) more += left(other);
  }
  return static_cast<uint64_t>(beside ? alone + more : alone);
}

// Whether the request may begin: false where the tier has a part of it for which there is no room.
bool Engine::fetch(Running* one) {
  prompt_of(*one);
  quire_reserve_result result{};
  const auto tokens = options_.tier->fetch(one->sequence, prompt_, one->prompt - 1, full_tokens(*one), &result);
  if (tokens.value_or(0) == 0) return tokens.has_value();
  one->position = *tokens;
  count_match(one, result, *tokens);
  return true;
}

void Engine::prompt_of(const Running& one) {
  prompt_symbols(trace_[one.index], &prompt_);
  for (uint64_t i = prompt_.size(); i < one.prompt; ++i) prompt_.push_back(generated_symbol(trace_[one.index], one.index, i));
}

// The symbols of a prompt from `position` on; the library keeps those of the chunk it admits.
void Engine::add_symbols(const Running& one) {
  prompt_of(one);
  symbols_.insert(symbols_.end(), prompt_.begin() + static_cast<std::ptrdiff_t>(one.position), prompt_.end());
}

// One entry per running sequence, in order, until the step's tokens are used up.
void Engine::build_entries() {
  entries_.clear();
  symbols_.clear();
  uint64_t budget = options_.tokens_per_step;
  for (const Running& one : running_) {
    if (budget == 0) break;
    quire_reserve_entry entry{};
    entry.sequence = one.sequence;
    entry.num_tokens = 1;
    entry.symbols_offset = symbols_.size();
    if (one.position < one.prompt) {
      add_symbols(one);
      entry.symbols_position = one.position;
      entry.num_symbols = static_cast<uint32_t>(one.prompt - one.position);
      entry.num_tokens = static_cast<uint32_t>(std::min(budget, one.prompt - one.position));
      entry.flags = one.matched ? 0 : QUIRE_ENTRY_MATCH;
      if (!one.matched) entry.full_tokens = full_tokens(one);
      if (entry.num_tokens == entry.num_symbols) entry.flags |= QUIRE_ENTRY_PROMPT_END;
    }
    budget -= entry.num_tokens;
    entries_.push_back(entry);
  }
}

void Engine::reserve_and_commit() {
  build_entries();
  results_.assign(entries_.size(), {});
  quire_step step{};
  timed([&](quire_error* error) {
    return quire_reserve(cache_, entries_.data(), entries_.size(), symbols_.data(), symbols_.size(), results_.data(), &step, error);
  });
  if (step.id != 0) commit(step);
  make_room();
  retire();
}

void Engine::commit(quire_step step) {
  commits_.clear();
  symbols_.clear();
  for (size_t i = 0; i < results_.size(); ++i) {
    const quire_reserve_result& result = results_[i];
    if (result.code != QUIRE_OK) continue;
    Running& one = running_[i];
    if (!one.matched) count_match(&one, result, result.hit_tokens);
    one.position = result.position + result.num_tokens;
    result_.computed_tokens += result.num_tokens;
    quire_commit_entry entry{};
    entry.sequence = one.sequence;
    entry.num_accepted = result.num_tokens;
    entry.symbols_offset = symbols_.size();
    if (one.position >= one.prompt) {  // the last position's logits give the next token
      symbols_.push_back(generated_symbol(trace_[one.index], one.index, one.position));
      entry.symbols_position = one.position;
      entry.num_symbols = 1;
      ++one.generated;
    }
    commits_.push_back(entry);
  }
  ++result_.steps;
  timed([&](quire_error* error) { return quire_commit(step, commits_.data(), commits_.size(), symbols_.data(), symbols_.size(), error); });
}

// tokens: with those of the tier.
void Engine::count_match(Running* one, const quire_reserve_result& result, uint64_t tokens) {
  one->matched = true;
  if (one->counted) return;
  one->counted = true;
  if (one->index == options_.follow) result_.followed.push_back(Moment{result_.steps, tokens, "found"});
  result_.prompt_tokens += one->prompt;
  result_.hit_tokens += result.hit_tokens;
  result_.tier_tokens += tokens - result.hit_tokens;
  result_.hits[one->index] = static_cast<uint32_t>(result.hit_tokens);
  result_.found[one->index] = static_cast<uint32_t>(tokens);
  if (result.miss >= 0 && result.miss < 8) ++result_.misses[result.miss];
}

// Entries without room: running ones push the youngest out, new ones wait.
void Engine::make_room() {
  const bool any = std::any_of(results_.begin(), results_.end(), [](const auto& result) { return result.code == QUIRE_OK; });
  for (size_t i = 0; i < results_.size(); ++i) {
    const quire_code code = results_[i].code;
    if (code == QUIRE_OK) continue;
    if (code != QUIRE_RESOURCE_EXHAUSTED) {
      const quire_str why = quire_refusal_text(results_[i].reason);
      throw client::Failure(code, "request " + std::to_string(running_[i].index) + " was refused: " + std::string(why.data, why.len));
    }
    if (running_.size() == 1 && !any) {
      throw client::Failure(code, "request " + std::to_string(running_[0].index) + " does not fit an otherwise empty cache: group " +
                                      std::to_string(results_[i].group) + " lacks " + std::to_string(results_[i].missing_pages) + " pages");
    }
    preempt_youngest();
    return;
  }
}

void Engine::preempt_youngest() {
  Running one = running_.back();
  running_.pop_back();
  if (one.matched) {
    timed([&](quire_error* error) { return quire_sequence_preempt(cache_, one.sequence, error); });
    ++result_.preemptions;
  }
  one.matched = false;
  one.position = 0;
  waiting_.push_front(one);
  full_ = true;  // until a request ends: what was pushed out would push out again
}

void Engine::retire() {
  for (size_t i = 0; i < running_.size();) {
    if (running_[i].generated < output_length(running_[i])) {
      ++i;
      continue;
    }
    timed([&](quire_error* error) { return quire_sequence_finish(cache_, running_[i].sequence, error); });
    ended_.push_back(running_[i].index);
    const auto seen = static_cast<double>(std::min<uint64_t>(result_.requests + 1, kMeanOf));
    mean_output_ += (static_cast<double>(running_[i].generated) - mean_output_) / seen;
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    ++result_.requests;
    if (options_.samples > 0) sample();
    full_ = false;
  }
  if (running_.empty()) full_ = false;
}

}  // namespace quire::replay
