// Allocations of a trace: each is a reserve whose known tokens are committed at once, because upstream publishes when it allocates. What is
// still a draft, or not sampled yet, is computed again when the next allocation says that it was accepted.
#pragma once

#include <set>

#include "tests/golden/replay.h"

namespace quire::golden {

class ReplayedTables : public ReplayedCache {
 public:
  using ReplayedCache::ReplayedCache;

 protected:
  // Later hits depend on what was evicted, and that on how much room there was.
  void excuse(const std::string& what) const {
    if (duplicates_) throw Stop{End::kDuplicates, what};
    if (forgotten_) throw Stop{End::kForgotten, what};
    if (rolled_) throw Stop{End::kRollback, what};
    if (early_) throw Stop{End::kEarlyWindows, what};
    if (free_order_) throw Stop{End::kFreeOrder, what};
  }

  void allocate(const json& op) {
    Request& r = requests_[op.at("r")];
    if (op.value("ext", 0) != 0 || op.value("delay", false) || op.value("enc", 0) != 0 || op.value("resv", 0) != 0 ||
        op.value("new", 0) == 0) {
      throw Stop{End::kNotOffered, "externally computed tokens"};
    }
    const uint64_t computed = op.value("c", 0);
    const uint64_t hit = op.value("use_hit", false) ? op.value("hit", 0) : 0;
    const uint64_t fresh = op.at("new");
    if (fresh + op.value("look", uint64_t{0}) > step_tokens_) throw Stop{End::kNotOffered, "more tokens at once than may be in flight"};
    if (computed < r.committed) throw Stop{End::kRollback, "a sequence that was cut"};
    if (!r.sequence) {
      const quire_identity identity = identity_of(r);
      auto made = cache_->sequence_create(&identity);
      require(made.ok(), made.status().message());
      r.sequence = *made;
    }
    if (computed > r.committed) catch_up(&r, std::min<uint64_t>(computed, r.tokens.size()));
    const bool expected = !op.contains("res") || op.at("res").at("ok");
    if (!expected && hit > 0 && published_now(r, hit)) return;  // upstream waits a step for what this one publishes
    quire_reserve_result result{};
    if (!expected) leave_refused(op);
    const uint64_t from = r.committed;  // what was computed and is not known is computed again
    const uint64_t count = computed + fresh - from;
    const StepId step = reserve(r, op, from, hit, count, &result);
    if (expected != (result.code == QUIRE_OK)) differs_in_admission(op, computed, expected, result.code);
    if (!expected) {
      hold(&r, op.at("res").at("t"));
      return;
    }
    if (result.hit_tokens != hit) excuse("hit at allocation");
    require(result.hit_tokens == hit, tell("hit", static_cast<int64_t>(hit), result.hit_tokens));
    const uint64_t begin = from + hit;
    if (op.contains("res")) compare_tables(op.at("res").at("t"), begin, count, step);
    const uint64_t known = std::min<uint64_t>(r.tokens.size(), begin + count);
    settle(&r, op, step, begin, count, known > begin ? known - begin : 0);
    if (!op.contains("res")) return;
    hold(&r, op.at("res").at("t"));
  }

  StepId reserve(const Request& r, const json& op, uint64_t computed, uint64_t hit, uint64_t fresh, quire_reserve_result* result) {
    auto symbols = symbols_of(r);
    const uint64_t end = std::min<uint64_t>(symbols.size(), computed + hit + fresh + (hit > 0 ? 1 : 0));
    quire_reserve_entry entry{};
    entry.sequence = r.sequence->value;
    entry.symbols_offset = computed;
    entry.num_tokens = static_cast<uint32_t>(fresh);
    // With a match the hit's symbols are given, too; without one those that are computed now.
    entry.flags = QUIRE_ENTRY_NO_STOP | (hit > 0 ? QUIRE_ENTRY_MATCH : 0U);
    // Upstream keeps the last boundary of the prompt beside those of the blocks.
    const uint64_t last = computed + hit + fresh;
    const uint64_t grid = plan_->hit_alignment_tokens;
    const bool retained = !config_.value("retention", json()).is_null();
    if (partial_ && last == r.prompt / unit_ * unit_) entry.flags |= QUIRE_ENTRY_KEEP_STATE;
    if (retained && (last == (r.prompt - 1) / grid * grid || last == op.value("sb", uint64_t{0}) / grid * grid)) {
      entry.flags |= QUIRE_ENTRY_KEEP_STATE;
    }
    entry.num_symbols = static_cast<uint32_t>(end > computed ? end - computed : 0);
    entry.num_look_ahead = op.value("look", 0);
    entry.full_tokens = op.value("fit", false) ? r.tokens.size() : 0;
    others_ = stats_now().pages_used > 0;
    StepId step;
    const Status reserved = cache_->reserve({&entry, 1}, symbols, {result, 1}, &step);
    require(reserved.ok(), reserved.message());
    return step;
  }

  void differs_in_admission(const json& op, uint64_t computed, bool expected, quire_code code) const {
    const bool kept = head_.at("res").at("watermark_blocks") != 0 && op.value("sched", true) != others_;
    if (kept && computed == 0) throw Stop{End::kWatermark, "the watermark"};
    if (states_ && computed > 0 && !expected) throw Stop{End::kGivenUp, "a state that is kept makes room"};
    // Upstream caps what a window may ask for by the tokens that may be in flight; traces allocate more than that at once.
    if (windows_ && expected && op.value("fit", false)) throw Stop{End::kNotOffered, "a cap on windows below the tokens of a step"};
    excuse("admission");
    require(false, tell("ok", expected, code));
  }

  // Upstream has less room, because it releases later: what it refuses is left out.
  void leave_refused(const json& op) {
    const quire_cache_stats stats = stats_now();
    if (op.at("res").at("free").get<int64_t>() >= static_cast<int64_t>(stats.pages_free + stats.pages_evictable)) return;
    hold(&requests_[op.at("r")], op.at("res").at("t"));
    throw PassOver{Stop{rolled_ ? End::kRollback : End::kEarlyWindows, "a refusal"}};
  }

  // Tokens that an earlier allocation computed before they were known to stand.
  void catch_up(Request* r, uint64_t computed) {
    if (computed > r->tokens.size()) throw Stop{End::kRollback, "tokens that are computed and unknown"};
    const uint64_t begin = r->committed;
    quire_reserve_result result{};
    const StepId step = reserve(*r, json::object(), begin, 0, computed - begin, &result);
    if (result.code != QUIRE_OK) throw Stop{End::kRollback, "room for accepted drafts"};
    commit(r, step, begin, computed - begin);
    r->slots = std::max(r->slots, computed);
    hold(r, json(r->told));
  }

  // Drafts and tokens that are not sampled yet: only the known ones stand.
  void settle(Request* r, const json& op, StepId step, uint64_t begin, uint64_t fresh, uint64_t known) {
    const uint64_t ahead = op.value("look", uint64_t{0});
    if (known == fresh) {
      commit(r, step, begin, known);
      r->slots = std::max(r->slots, std::min(begin + fresh + ahead, plan_->max_model_len));
      return;
    }
    rolled_ = true;
    if (known > 0 && (!states_ || fresh <= branches_ + 1)) {
      commit(r, step, begin, known);
      r->slots = r->committed;
      return;
    }
    const Status undone = cache_->abort(step, true);
    require(undone.ok(), undone.message());
    if (known == 0 && begin == r->committed) {
      renamed_from_ = begin;
      return;
    }
    if (known == 0) throw Stop{End::kRollback, "a hit whose tokens are not known"};
    quire_reserve_result result{};
    const StepId part = reserve(*r, json::object(), r->committed, begin - r->committed, known, &result);
    if (result.code != QUIRE_OK || result.position != begin) throw Stop{End::kRollback, "room for a part of a row"};
    commit(r, part, begin, known);
    r->slots = std::max(r->slots, r->committed);
    renamed_from_ = begin;
  }

  void commit(Request* r, StepId step, uint64_t begin, uint64_t accepted) {
    // Somebody else's blocks of the same prefix are there already: upstream keeps both.
    const uint64_t end = begin + accepted;
    if (config_.at("caching").get<bool>() && probe(*r, end, true) > begin) duplicates_ = true;
    quire_commit_entry entry{};
    entry.sequence = r->sequence->value;
    entry.num_accepted = static_cast<uint32_t>(accepted);
    const Status ok = cache_->commit(step, {&entry, 1}, {});
    require(ok.ok(), ok.message());
    for (uint64_t at = begin + 1; states_ && at <= end; ++at) {
      if (at % plan_->hit_alignment_tokens == 0 && at / hash_block_ <= r->hashes.size()) {
        published_.insert(hex_of({r->hashes[at / hash_block_ - 1].view().data(), r->hashes[at / hash_block_ - 1].view().size()}));
      }
    }
    r->committed = end;
  }

  bool published_now(const Request& r, uint64_t hit) const {
    if (!states_ || hit / hash_block_ > r.hashes.size()) return false;
    const auto name = r.hashes[hit / hash_block_ - 1].view();
    return published_.count(hex_of({name.data(), name.size()})) != 0;
  }

  // What upstream's tables hold of what the sequence holds on our side.
  void hold(Request* r, const json& tables) {
    r->told = tables.get<std::vector<std::vector<int64_t>>>();
    r->table.clear();
    std::vector<int64_t> given_back;
    for (size_t g = 0; g < r->told.size(); ++g) {
      const GroupPlan& plan = plan_->groups[g];
      auto table = r->told[g];
      const uint64_t gone = plan.live.everything() ? 0 : plan.live.tail_begin(r->committed) / plan.block_tokens;
      std::fill_n(table.begin(), std::min<size_t>(gone, table.size()), 0);
      // With branches upstream's states move about its table: their ids are not followed.
      const bool nameless = plan.is_state() && (r->committed == 0 || branches_ > 0);
      if (nameless) table.clear();
      const uint64_t blocks = (r->slots + plan.block_tokens - 1) / plan.block_tokens;
      if (rolled_ && blocks < table.size()) {
        given_back.insert(given_back.end(), table.begin() + static_cast<long>(blocks), table.end());
        table.resize(blocks);
      }
      r->table.push_back(std::move(table));
    }
    // Taken again since they were compared.
    for (size_t g = 0; renamed_from_ && g < r->table.size(); ++g) {
      const size_t first = plan_->groups[g].is_state() ? 0 : *renamed_from_ / plan_->groups[g].block_tokens;
      for (size_t b = first; b < r->table[g].size(); ++b) forget_ids(r->table[g][b]);
    }
    renamed_from_.reset();
    for (int64_t id : given_back) {
      if (!held(id)) forget_ids(id);
    }
  }

  std::vector<int32_t> fill_of(StepId step, uint32_t group, quire_fill_kind kind, size_t capacity) const {
    std::vector<int32_t> out(capacity, -1);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.group = group;
    fill.destination = out.data();
    fill.capacity = fill.pitch = out.size();
    fill.fill_value = -1;
    uint64_t written = 0;
    const Status ok = cache_->step_fill(step, fill, &written);
    require(ok.ok(), ok.message());
    return out;
  }

  // One bijection of ids per trace: a block that both sides hold has one name on each.
  void compare_tables(const json& tables, uint64_t begin, uint64_t fresh, StepId step) {
    for (uint32_t g = 0; g < kinds_.size(); ++g) {
      const auto theirs = tables[g].get<std::vector<int64_t>>();
      const GroupPlan& plan = plan_->groups[g];
      if (plan.is_state()) {
        compare_states(theirs, g, begin, begin + fresh, step);
        continue;
      }
      const std::vector<int32_t> ours = fill_of(step, g, QUIRE_FILL_RAW_TABLE, theirs.size() + 64);
      const auto length = static_cast<size_t>(std::find(ours.begin(), ours.end(), -1) - ours.begin());
      const std::string name = "table length of group " + std::to_string(g);
      // Look-ahead slots are no part of a step's table.
      require(length <= theirs.size(), tell(name, static_cast<int64_t>(theirs.size()), static_cast<int64_t>(length)));
      const uint64_t first_live = plan.live.everything() ? 0 : plan.live.tail_begin(begin) / plan.block_tokens;
      for (size_t b = 0; b < length; ++b) {
        if (b < first_live && ours[b] == 0) continue;  // difference 1: upstream may keep it a while longer
        require((theirs[b] == 0) == (ours[b] == 0), tell("block " + std::to_string(b), theirs[b], ours[b]));
        if (theirs[b] != 0) match_ids(theirs[b], ours[b]);
      }
      for (size_t b = length; b < theirs.size(); ++b) forget_ids(theirs[b]);  // of look-ahead: met later
    }
  }

  // Of states what is read and what is written; upstream's running states move about its table when there are branches.
  void compare_states(const std::vector<int64_t>& theirs, uint32_t g, uint64_t begin, uint64_t end, StepId step) {
    const uint64_t block = plan_->groups[g].block_tokens;
    const int32_t read = fill_of(step, g, QUIRE_FILL_STATE_READ, 1)[0];
    const int32_t write = fill_of(step, g, QUIRE_FILL_STATE_WRITE, 1)[0];
    require((begin == 0) == (read == 0), tell("state read at " + std::to_string(begin), begin, read));
    require(write > 0, "no state to write");
    if (branches_ > 0) return;
    const auto at = [&](uint64_t tokens) { return (tokens - 1) / block < theirs.size() ? theirs[(tokens - 1) / block] : 0; };
    if (read == write) forget_ids(at(begin));
    if (begin > 0 && begin % block != 0) forget_ids(at(begin));  // inside the block one side or the other goes on in a copy
    if (begin > 0 && at(begin) != 0 && begin % block == 0 && read != write) match_ids(at(begin), read);
    require(at(end) != 0, tell("state to write at " + std::to_string(end), 0, write));
    if (begin == 0 || read == write || at(begin) != at(end)) match_ids(at(end), write);
  }

  void match_ids(int64_t theirs, int32_t ours) {
    const auto t = theirs_to_ours_.find(theirs);
    const auto o = ours_to_theirs_.find(ours);
    const bool held_t = t != theirs_to_ours_.end() && held(theirs);
    const bool held_o = o != ours_to_theirs_.end() && held(o->second);
    // Difference 2: which of two copies is hit.
    if (duplicates_ && ((held_t && t->second != ours) || (held_o && o->second != theirs)))
      throw Stop{End::kDuplicates, "another copy is hit"};
    if (forgotten_ && ((held_t && t->second != ours) || (held_o && o->second != theirs)))
      throw Stop{End::kForgotten, "another block is hit"};
    if (held_t) require(t->second == ours, tell("block " + std::to_string(theirs) + " of a running sequence", t->second, ours));
    if (held_o) require(o->second == theirs, tell("our block " + std::to_string(ours) + " of a running sequence", o->second, theirs));
    // Copies: where both name the same pair, erasing one entry ends the life of what the other iterator reads.
    const int32_t old_ours = t != theirs_to_ours_.end() ? t->second : 0;
    const int64_t old_theirs = o != ours_to_theirs_.end() ? o->second : 0;
    ours_to_theirs_.erase(old_ours);
    theirs_to_ours_.erase(old_theirs);
    theirs_to_ours_[theirs] = ours;
    ours_to_theirs_[ours] = theirs;
  }

  // Written in place, where upstream takes another block.
  void forget_ids(int64_t theirs) {
    const auto t = theirs_to_ours_.find(theirs);
    if (t == theirs_to_ours_.end()) return;
    ours_to_theirs_.erase(t->second);
    theirs_to_ours_.erase(t);
  }

  template <typename Visit>
  void each_table(Visit visit) const {
    for (const auto& [name, r] : requests_) visit(r);
    for (const auto& [name, r] : popped_) visit(r);
  }
  bool held(int64_t id) const {
    bool found = false;
    each_table([&](const Request& r) {
      for (const auto& table : r.table) found = found || std::find(table.begin(), table.end(), id) != table.end();
    });
    return found;
  }

  // Free on our side: every block that is in no table, the null block left out. A sequence owns its state and the branches, wherever they
  // are.
  void compare_free(const json& op) {
    std::set<int64_t> used;
    uint64_t states = 0;
    each_table([&](const Request& r) {
      for (size_t g = 0; g < r.table.size(); ++g) {
        if (plan_->groups[g].is_state()) {
          states += r.committed > 0 ? branches_ + 1 : 0;
        } else {
          used.insert(r.table[g].begin(), r.table[g].end());
        }
      }
    });
    used.erase(0);
    const int64_t expected = config_.at("num_blocks").get<int64_t>() - 1 - static_cast<int64_t>(used.size() + states);
    const int64_t told = op.at("res").at("free");
    require(windows_ || rolled_ ? told <= expected : told == expected, tell("free by their tables", told, expected));
    early_ = early_ || told < expected;
    const quire_cache_stats stats = stats_now();
    const auto is = static_cast<int64_t>(stats.pages_free + stats.pages_evictable);
    if (expected != is && forgotten_) throw Stop{End::kForgotten, "free"};
    if (expected != is && duplicates_) throw Stop{End::kDuplicates, "free"};
    require(expected == is, tell("free", expected, is));
  }

  bool rolled_ = false;  // drafts: their blocks went back
  bool others_ = false;
  std::optional<uint64_t> renamed_from_;
  std::set<std::string> published_;  // boundaries of states, in this step
};

}  // namespace quire::golden
