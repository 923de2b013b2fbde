// A tiny cache and the naive one side by side: a few operations on both, comparison of all that can
// be seen, and bad calls.
#pragma once

#include <string>
#include <vector>

#include "tests/model/naive.h"
#include "tests/model/world.h"

namespace quire::model {

inline const std::string kPrompts[] = {"aaaabb", "aaaac", "aaa"};

enum Op : uint8_t {
  kStartA0,
  kStartA1,
  kStartA2,
  kStartB0,
  kStartB1,
  kStartB2,
  kStartBoth,
  kDecodeA,
  kDecodeB,
  kCommit,
  kAbort,
  kFinishA,
  kFinishB,
  kPreemptA,
  kReset,
  kLoadA,
  kLoadB,
  kArriveA,
  kArriveB,
  kLoseA,
  kLoseB,
  kNumOps
};
inline const char* const kOpNames[] = {"start A0", "start A1", "start A2", "start B0", "start B1", "start B2", "start both",
                                       "decode A", "decode B", "commit",   "abort",    "finish A", "finish B", "preempt A",
                                       "reset",    "load A",   "load B",   "arrive A", "arrive B", "lose A",   "lose B"};

inline std::vector<quire_symbol> symbols_of(const std::string& text) { return {text.begin(), text.end()}; }

struct Tiny {
  std::vector<NaiveGroup> groups;
  uint32_t pages = 6;
  uint32_t unit = 2, grid = 2;
  uint64_t budget = 0;  // states; 0 = none
  bool strict = false;
  bool loads = false;
};

inline NaiveLimits limits_of(const Tiny& tiny) {
  const uint64_t budget = tiny.budget != 0 ? tiny.budget : UINT64_MAX;
  return {tiny.pages, tiny.unit, tiny.grid, budget, !tiny.strict};
}

class Pair {
 public:
  explicit Pair(const Tiny& tiny) : tiny_(tiny), naive_(tiny.groups, limits_of(tiny)) {
    std::vector<GroupSketch> groups;
    for (const NaiveGroup& g : tiny.groups) {
      groups.push_back(GroupSketch{LiveRange{.state = g.state}, g.block_tokens, 1, 1});
      states_ = states_ || g.state;
    }
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 2;
    options.max_tokens_per_step = 16;
    options.step_depth = 1;
    options.hash_seed = 7;
    options.max_index_units = 40;
    options.max_roots = 1;
    options.max_media = 1;
    options.keep_states = QUIRE_KEEP_ASKED - 1;  // all but that
    // A plan made by hand has no bytes: parts are counted.
    options.checkpoint_bytes = limits_of(tiny).budget;
    if (tiny.strict) options.flags = QUIRE_CACHE_STRICT_LRU;
    config_ = make_config(groups, tiny.pages, 12);
    auto made = Cache::create(config_, options);
    MODEL_REQUIRE(made.ok(), made.status().message());
    cache_ = std::move(made.value());
  }

  // False: the operation means nothing here.
  bool apply(Op op) {
    if (op <= kStartB2) return start({{op / 3, op % 3}});
    if (op == kStartBoth) return start({{0, 0}, {1, 1}});
    if (op == kDecodeA || op == kDecodeB) return decode(op - kDecodeA);
    if (op == kCommit) return commit();
    if (op == kAbort) return abort();
    if (op == kFinishA || op == kFinishB) return finish(op - kFinishA);
    if (op == kLoadA || op == kLoadB) return load(op - kLoadA);
    if (op >= kArriveA) return arrive((op - kArriveA) % 2, op >= kLoseA);
    if (op == kPreemptA) {
      if (!naive_.sequence(0).live || naive_.sequence(0).loading) return false;
      require_ok(cache_->sequence_preempt(ids_[0]), "preempt");
      naive_.empty(0);
      return true;
    }
    const Status done = cache_->reset();
    MODEL_REQUIRE(done.ok() == !naive_.step_in_flight(), done.message());
    if (done.ok()) naive_.reset();
    return done.ok();
  }

  void compare() {
    require_ok(cache_->verify(), "verify");
    quire_cache_stats s{};
    s.struct_size = sizeof s;
    cache_->stats(&s);
    const auto same = [](const char* what, uint64_t got, uint64_t wanted) {
      MODEL_REQUIRE(got == wanted, std::string(what) + ": " + std::to_string(got) + ", expected " + std::to_string(wanted));
    };
    same("free pages", s.pages_free, naive_.free());
    same("evictable pages", s.pages_evictable, naive_.evictable());
    same("evicted blocks", s.evicted_blocks, naive_.evicted());
    same("states kept", s.checkpoint_bytes, naive_.states_kept());
    same("boundaries given up", s.checkpoints_given_up, naive_.given_up());
    same("boundaries declined", s.checkpoints_declined, 0);
    same("recompute avoided", s.recompute_avoided, naive_.spared());
    for (const std::string& prompt : kPrompts) {
      for (const char* more : {"", "x", "xx", "xxx"}) {
        const std::string text = prompt + more;
        quire_probe_result found{};
        require_ok(cache_->probe(nullptr, symbols_of(text), &found), "probe");
        uint64_t full = 0;
        const uint64_t hit = naive_.hit(text, &full);
        same("hit", found.hit_tokens, hit);
        same("full hit", found.full_hit_tokens, full);
      }
    }
    for (int q = 0; q < 2; ++q) {
      const Naive::Sequence& n = naive_.sequence(q);
      if (!n.live) continue;
      quire_sequence_info info{};
      require_ok(cache_->sequence_info(ids_[q], &info), "info");
      const bool row = n.has_row && n.row_life == n.life;
      same("committed", info.committed, n.text.size());
      same("reserved", info.reserved, n.text.size() + (row ? n.in_flight.size() : 0));
      same("steps in flight", info.steps_in_flight, row ? 1 : 0);
      uint64_t parts = 0;
      for (size_t g = 0; g < n.tables.size(); ++g) parts += n.tables[g].size() + (n.current[g] >= 0 ? 1 : 0) + (n.spare[g] >= 0 ? 1 : 0);
      same("parts", info.num_parts, parts);
    }
  }

  // What the outside can see, but for the count of refusals.
  uint64_t digest() {
    quire_cache_stats s{};
    s.struct_size = sizeof s;
    cache_->stats(&s);
    s.refused_entries = 0;
    uint64_t h = 1;
    const auto* words = reinterpret_cast<const uint64_t*>(&s);
    for (size_t i = 0; i < sizeof s / 8; ++i) h = mix(h, words[i]);
    for (SequenceId id : ids_) {
      quire_sequence_info info{};
      if (!cache_->sequence_info(id, &info).ok()) continue;
      for (uint64_t v : {info.committed, info.reserved, info.known, info.num_parts, info.hit_tokens, uint64_t{info.steps_in_flight}})
        h = mix(h, v);
    }
    for (uint32_t g = 0; naive_.step_in_flight() && g < tiny_.groups.size(); ++g) {
      int32_t ids[64] = {};
      uint64_t written = 0;
      quire_fill fill{};
      fill.group = g;
      fill.kind = tiny_.groups[g].state ? QUIRE_FILL_STATE_WRITE : QUIRE_FILL_RAW_TABLE;
      fill.destination = ids;
      fill.capacity = 64;
      fill.pitch = tiny_.groups[g].state ? 0 : 12;
      require_ok(cache_->step_fill(step_, fill, &written), "fill");
      for (int32_t id : ids) h = mix(h, static_cast<uint64_t>(id));
    }
    return mix(h, std::hash<std::string>{}(naive_.state()));
  }

  void try_bad_calls() {
    const uint64_t before = digest();
    const SequenceId stale(uint64_t{99} << 32);
    const auto refused = [&](const Status& status, const char* what) {
      MODEL_REQUIRE(!status.ok() && !status.message().empty(), what);
      MODEL_REQUIRE(digest() == before, std::string(what) + " changed something: " + status.message());
    };
    refused(cache_->sequence_finish(stale), "finish of a stale id");
    refused(cache_->sequence_preempt(stale), "preempt of a stale id");
    refused(cache_->sequence_truncate(stale, 0), "truncate of a stale id");
    refused(cache_->sequence_fork(stale).status(), "fork of a stale id");
    refused(cache_->commit(StepId(0), {}, {}), "commit of step 0");
    refused(cache_->commit(StepId(step_.value + 1), {}, {}), "commit of a step to come");
    refused(cache_->abort(StepId(step_.value + 1)), "abort of a step to come");
    if (naive_.step_in_flight()) try_bad_commits(refused);
    for (int q = 0; q < 2; ++q) {
      if (!naive_.sequence(q).live) continue;
      refused(cache_->sequence_truncate(ids_[q], naive_.sequence(q).text.size() + 1), "tokens beyond the sequence");
      if (naive_.sequence(q).loading) try_bad_calls_of_a_load(q, refused);
      for (int kind = 0; kind < 9; ++kind) try_bad_reserve(q, kind, before);
    }
  }

  const std::string state() const { return naive_.state(); }
  uint64_t evicted() const { return naive_.evicted(); }
  uint64_t cut() const { return cut_; }
  uint64_t shared() const { return shared_; }
  uint64_t shared_by_steps() const { return shared_by_steps_; }

 private:
  struct Begin {
    int q, prompt;
  };

  template <typename Refused>
  void try_bad_commits(Refused refused) {
    std::vector<quire_commit_entry> rows(planned_.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = {ids_of_rows_[i].value, 0, 0, 0, planned_[i]};
    const auto with = [&](auto change) {
      std::vector<quire_commit_entry> bad = rows;
      change(bad);
      return cache_->commit(step_, bad, {});
    };
    refused(with([](auto& r) { r.pop_back(); }), "a row too few");
    refused(with([](auto& r) { r.push_back(r[0]); }), "a row too many");
    refused(with([](auto& r) { r[0].num_accepted += 1; }), "more than reserved");
    refused(with([](auto& r) { r[0].num_accepted = UINT32_MAX; }), "a negative count");
    refused(with([](auto& r) { r[0].sequence ^= 1; }), "another sequence's row");
    refused(with([](auto& r) { r[0].num_symbols = 1; }), "symbols outside of those given");
    refused(with([](auto& r) { r[0].symbols_offset = UINT64_MAX; }), "an offset that wraps");
  }

  template <typename Refused>
  void try_bad_calls_of_a_load(int q, Refused refused) {
    const auto with = [&](StepId load, quire_load_failure failure) {
      uint64_t committed = 0;
      return cache_->load_end(load, {&failure, 1}, &committed);
    };
    refused(cache_->sequence_finish(ids_[q]), "finish while loading");
    refused(cache_->sequence_preempt(ids_[q]), "preempt while loading");
    refused(cache_->sequence_fork(ids_[q]).status(), "fork while loading");
    refused(cache_->commit(loads_[q], {}, {}), "commit of a load");
    refused(cache_->abort(loads_[q]), "abort of a load");
    refused(with(StepId(loads_[q].value + 50), {}), "the end of a load to come");
    refused(with(loads_[q], {99, 0, 0, 1}), "an unknown group");
    refused(with(loads_[q], {0, 1, 0, 1}), "a reserved field");
    refused(with(loads_[q], {0, 0, 0, UINT64_MAX}), "a negative count");
    quire_reserve_entry e{};
    e.sequence = ids_[q].value;
    e.num_tokens = 1;
    quire_reserve_result result{};
    StepId step;
    refused(cache_->load_begin(e, {}, &result, &step), "a load beside a load");
  }

  void try_bad_reserve(int q, int kind, uint64_t before) {
    quire_reserve_entry e{};
    e.sequence = ids_[q].value;
    e.num_tokens = e.num_symbols = 1;
    std::vector<quire_symbol> symbols = {1};
    std::vector<quire_reserve_entry> entries = {e};
    if (kind == 0) entries[0].num_tokens = 0;
    if (kind == 1) entries[0].num_symbols = 2;
    if (kind == 2) entries[0].symbols_offset = UINT64_MAX;
    if (kind == 3) entries[0].flags = 0x8000;
    if (kind == 4) entries[0].encoder_tokens = 1;
    if (kind == 5) symbols[0] = 1u << 31;
    if (kind == 6) entries[0].num_tokens = 1000;  // cut to the step's tokens, and beyond the model's length
    if (kind == 7) entries.assign(3, e);
    if (kind == 8) entries[0].num_look_ahead = UINT32_MAX;
    std::vector<quire_reserve_result> results(entries.size());
    StepId step;
    const Status status = cache_->reserve(entries, symbols, results, &step);
    MODEL_REQUIRE(!status.ok() || results[0].code != QUIRE_OK, "bad entry " + std::to_string(kind) + " was admitted");
    MODEL_REQUIRE(digest() == before, "bad entry " + std::to_string(kind) + " changed something");
  }

  bool start(const std::vector<Begin>& begins) {
    if (naive_.step_in_flight()) return false;
    for (const Begin& b : begins) {
      if (naive_.sequence(b.q).live && (!naive_.sequence(b.q).text.empty() || naive_.sequence(b.q).loading)) return false;
    }
    std::vector<quire_reserve_entry> entries;
    std::vector<quire_symbol> symbols;
    for (const Begin& b : begins) {
      open(b.q);
      const auto prompt = symbols_of(kPrompts[b.prompt]);
      quire_reserve_entry e{};
      e.sequence = ids_[b.q].value;
      e.symbols_offset = symbols.size();
      e.num_symbols = e.num_tokens = static_cast<uint32_t>(prompt.size());
      e.flags = QUIRE_ENTRY_MATCH;
      entries.push_back(e);
      symbols.insert(symbols.end(), prompt.begin(), prompt.end());
    }
    std::vector<quire_reserve_result> results(entries.size());
    require_ok(cache_->reserve(entries, symbols, results, &step_), "reserve");
    clear_rows();
    for (size_t i = 0; i < begins.size(); ++i) admitted(begins[i], results[i]);
    return true;
  }

  void open(int q) {
    if (naive_.sequence(q).live) return;
    auto id = cache_->sequence_create(nullptr);
    MODEL_REQUIRE(id.ok(), id.status().message());
    ids_[q] = *id;
    naive_.create(q);
  }

  // What a row or a load of the prompt begins with; false: it has no room. Where nobody could make
  // room the hit is cut.
  bool place(int q, const std::string& prompt, uint64_t most, bool load, uint64_t* position, std::string* tokens) {
    uint64_t full = 0, of_less = 0;
    *position = naive_.hit(prompt, &full);
    const uint64_t junction = full > *position ? full : 0;
    for (bool again = false;; again = true) {
      uint64_t end = std::min<uint64_t>(*position + most, prompt.size());
      if (states_ && !load) {  // a chunk stops where a state can be kept, or where attention alone would have hit
        const uint64_t stop = junction > 0 ? std::min(junction, end) : end / tiny_.grid * tiny_.grid;
        if (stop > *position && stop < end) end = stop;
      }
      *tokens = prompt.substr(*position, end - *position);
      if (naive_.fits(q, prompt, *position, *tokens, true, load)) return true;
      if (*position == 0 || naive_.step_in_flight() || !naive_.nobody_has_tokens()) return false;
      const uint64_t less = std::min(*position - tiny_.grid, again ? *position / 2 : *position);
      *position = naive_.hit(prompt.substr(0, less + 1), &of_less);
      ++cut_;
    }
  }

  void admitted(const Begin& b, const quire_reserve_result& result) {
    const std::string& prompt = kPrompts[b.prompt];
    uint64_t position = 0;
    std::string tokens;
    const bool fits = place(b.q, prompt, prompt.size(), false, &position, &tokens);
    MODEL_REQUIRE((result.code == QUIRE_OK) == fits, "admitted: " + std::to_string(result.code));
    if (!fits) return;
    MODEL_REQUIRE(result.position == position && result.num_tokens == tokens.size(), "the row");
    for (uint32_t g = 0; g < tiny_.groups.size(); ++g) {
      if (tiny_.groups[g].state) continue;
      const Naive::Sequence& s = naive_.sequence(b.q);
      const auto blocks = naive_.ahead(s, g, prompt, position, tokens, true, false);
      shared_by_steps_ += blocks.empty() ? 0 : 1;
    }
    naive_.reserve(b.q, prompt, position, tokens, true);
    planned_.push_back(result.num_tokens);
    ids_of_rows_.push_back(ids_[b.q]);
  }

  // Four tokens of a prompt, or two behind what the sequence has.
  bool load(int q) {
    const Naive::Sequence& n = naive_.sequence(q);
    if (n.has_row || n.text.size() >= 8) return false;  // also where a row of who was here before is in flight
    open(q);
    const bool match = n.text.empty();
    const std::string prompt = match ? kPrompts[q] : n.text + "xx";
    quire_reserve_entry e{};
    e.sequence = ids_[q].value;
    e.num_tokens = match ? 4 : 2;
    const std::vector<quire_symbol> symbols = symbols_of(match ? prompt : "xx");
    e.symbols_position = known(q);
    e.num_symbols = static_cast<uint32_t>(symbols.size());
    e.flags = match ? QUIRE_ENTRY_MATCH : 0;
    quire_reserve_result result{};
    require_ok(cache_->load_begin(e, symbols, &result, &loads_[q]), "load_begin");
    uint64_t position = n.text.size();
    std::string tokens = "xx";
    const bool fits = match ? place(q, prompt, 4, true, &position, &tokens) : naive_.fits(q, prompt, position, tokens, false, true);
    MODEL_REQUIRE((result.code == QUIRE_OK) == fits, "admitted: " + std::to_string(result.code));
    if (!fits) return true;
    MODEL_REQUIRE(result.position == position && result.num_tokens == tokens.size(), "the load");
    std::vector<uint64_t> have(tiny_.groups.size());
    uint64_t count = 0;
    require_ok(cache_->load_have(loads_[q], have, &count), "load_have");
    for (uint32_t g = 0; g < count; ++g) {
      const bool shares = match && !tiny_.groups[g].state;
      const uint64_t blocks = shares ? naive_.adopted(g, prompt, position, tokens).size() : 0;
      MODEL_REQUIRE(have[g] == position + blocks * tiny_.groups[g].block_tokens, "what a load need not bring");
      shared_ += blocks > 0 ? 1 : 0;
    }
    naive_.load(q, prompt, position, tokens, match);
    return true;
  }

  // All of it, or its second token is lost: groups that need everything resume before it, states
  // not at all.
  bool arrive(int q, bool lost) {
    const Naive::Sequence& n = naive_.sequence(q);
    if (!n.live || !n.loading) return false;
    const uint64_t position = n.text.size(), end = position + n.in_flight.size();
    const uint64_t wanted = !lost || end == position + 1 ? end : states_ ? position : position + 1;
    const quire_load_failure failure{static_cast<uint32_t>(tiny_.groups.size() - 1), 0, position + 1, 1};
    uint64_t committed = 0;
    require_ok(cache_->load_end(loads_[q], {&failure, lost ? 1U : 0U}, &committed), "load_end");
    MODEL_REQUIRE(committed == wanted, "a load ends at " + std::to_string(committed) + ", expected " + std::to_string(wanted));
    naive_.arrive(q, wanted - position);
    return true;
  }

  bool decode(int q) {
    const Naive::Sequence& n = naive_.sequence(q);
    if (naive_.step_in_flight() || !n.live || n.loading || n.text.empty() || n.text.size() >= 9) return false;
    quire_reserve_entry e{};
    e.sequence = ids_[q].value;
    e.symbols_position = known(q);
    e.num_symbols = e.num_tokens = 1;
    const quire_symbol symbol = 'x';
    quire_reserve_result result{};
    require_ok(cache_->reserve({&e, 1}, {&symbol, 1}, {&result, 1}, &step_), "reserve");
    clear_rows();
    const bool fits = naive_.fits(q, n.text, n.text.size(), "x", false);
    MODEL_REQUIRE((result.code == QUIRE_OK) == fits, "admitted: " + std::to_string(result.code));
    if (!fits) return true;
    naive_.reserve(q, n.text, n.text.size(), "x", false);
    planned_.push_back(1);
    ids_of_rows_.push_back(ids_[q]);
    return true;
  }

  uint64_t known(int q) const {
    quire_sequence_info info{};
    require_ok(cache_->sequence_info(ids_[q], &info), "sequence_info");
    return info.known;
  }

  void clear_rows() {
    planned_.clear();
    ids_of_rows_.clear();
  }

  bool commit() {
    if (!naive_.step_in_flight()) return false;
    std::vector<quire_commit_entry> rows(planned_.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = {ids_of_rows_[i].value, 0, 0, 0, planned_[i]};
    require_ok(cache_->commit(step_, rows, {}), "commit");
    MODEL_REQUIRE(cache_->commit(step_, rows, {}).code() == QUIRE_NOT_FOUND, "a second commit");
    naive_.commit();
    return true;
  }

  bool abort() {
    if (!naive_.step_in_flight()) return false;
    require_ok(cache_->abort(step_), "abort");
    naive_.abort();
    return true;
  }

  bool finish(int q) {
    if (!naive_.sequence(q).live || naive_.sequence(q).loading) return false;
    require_ok(cache_->sequence_finish(ids_[q]), "finish");
    naive_.finish(q);
    return true;
  }

  const Tiny& tiny_;
  Naive naive_;
  bool states_ = false;
  std::shared_ptr<const Config> config_;
  std::unique_ptr<Cache> cache_;
  SequenceId ids_[2];
  StepId loads_[2];
  uint64_t cut_ = 0, shared_ = 0, shared_by_steps_ = 0;
  StepId step_;
  std::vector<uint32_t> planned_;
  std::vector<SequenceId> ids_of_rows_;
};

}  // namespace quire::model
