#include "tests/stamps/ledger.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace quire::stamps {
namespace {

bool choose(Tiered tiered, bool drawn) { return tiered == Tiered::kAlways || (tiered == Tiered::kSome && drawn); }

}  // namespace

Ledger::Ledger(size_t kind, uint64_t seed, Mode mode, Tallies* tallies, Heritage* heritage)
    : dice_(seed),
      clock_dice_(chained(0x636c6f636b, seed)),
      hold_dice_(chained(0x686f6c64, seed)),
      tier_dice_(chained(0x74696572, seed)),
      heir_dice_(chained(0x68656972, seed)),
      tiered_(choose(mode.tiered, tier_dice_.percent(25)) || heritage != nullptr),
      inherits_(heritage != nullptr),
      pins_end_(clock_dice_.percent(40)),
      mode_(mode),
      tallies_(*tallies),
      tally_(tallies->kinds[kind]),
      plan_(heritage != nullptr ? std::move(heritage->plan) : make_plan(kinds()[kind], dice_)),
      phrases_(&dice_, plan_.info.max_model_len) {
  if (heritage != nullptr) {
    phrases_.inherit(heritage->phrases);
    computed_ = heritage->computed;
  } else {  // codecs stamp pieces of rows, whatever the head
    plan_.by_head = tiered_ && !plan_.coded && plan_.encoder == 0 && heir_dice_.percent(50);
  }
  owners_ = {{"", "", 0}, {"ab", "", 0}, {"a", "b", 0}, {"", "ab", 0}, {"ab", "", 1}};
  owners_.resize(dice_.percent(60) ? dice_.between(1, 2) : dice_.between(3, owners_.size()));
  create_cache();
  bytes_ = std::make_unique<StampedBytes>(&plan_);
  ++tally_.runs;
}

quire_cache_options Ledger::draw_options() {
  quire_cache_options o = QUIRE_INIT(quire_cache_options);
  limits_.longest = std::min(plan_.info.max_model_len, plan_.info.capacity_tokens);
  limits_.running = dice_.small(2, 8);
  limits_.depth = plan_.depth;
  limits_.tokens = static_cast<uint32_t>(plan_.in_flight / plan_.depth);
  limits_.branches = plan_.branches;
  limits_.in_place = plan_.states && dice_.percent(35);
  limits_.at_blocks = plan_.at_blocks;
  o.max_sequences = limits_.running + 2;
  o.max_tokens_per_step = limits_.tokens;
  o.step_depth = limits_.depth;
  o.num_state_branches = limits_.branches;
  o.flags = (limits_.in_place ? QUIRE_CACHE_STATES_IN_PLACE : 0u) | (limits_.at_blocks ? QUIRE_CACHE_STATES_AT_BLOCKS : 0u);
  if (dice_.percent(25)) o.flags |= QUIRE_CACHE_STRICT_LRU;
  if (dice_.percent(3)) o.flags |= QUIRE_CACHE_NO_PREFIX_REUSE;
  if (dice_.percent(20)) o.max_roots = limits_.running + 3;
  if (plan_.info.num_pages > 8 && dice_.percent(30)) o.watermark_pages = dice_.small(1, 3);
  if (dice_.percent(40)) o.keep_states = dice_.small(1, 31);
  if (dice_.percent(15)) o.max_index_units = dice_.between(8, 200);
  if (dice_.percent(30)) o.checkpoint_interval = dice_.between(1, 40);
  o.max_pins = 8;
  if (dice_.percent(30)) o.pin_quota_tokens = dice_.between(16, 200);
  o.hash_seed = dice_.roll() | 1;
  if (hold_dice_.percent(25)) o.max_loads = hold_dice_.small(1, 4);
  if (hold_dice_.percent(30)) o.max_load_tokens = hold_dice_.between(1, 2 * limits_.longest);
  limits_.loads = std::min(o.max_loads != 0 ? o.max_loads : 16, o.max_sequences);
  limits_.load_tokens = o.max_load_tokens != 0 ? o.max_load_tokens : o.max_tokens_per_step;
  limits_.reuse = (o.flags & QUIRE_CACHE_NO_PREFIX_REUSE) == 0 && plan_.encoder == 0;
  const bool chosen = o.checkpoint_interval != 0 || (o.keep_states != 0 && (o.keep_states & QUIRE_KEEP_EVERY) == 0);
  limits_.finds_all = (o.flags & QUIRE_CACHE_NO_PREFIX_REUSE) == 0 && o.max_index_units == 0 && !chosen && o.max_roots == 0;
  limits_.finds_all = limits_.finds_all && !plan_.states && !plan_.drafts && plan_.encoder == 0;
  if (plan_.states && dice_.percent(35)) {
    for (const quire_group_info& group : plan_.groups) {
      if (group.is_state != 0) o.checkpoint_bytes += group.page_bytes_per_block * plan_.info.num_shards;
    }
    o.checkpoint_bytes *= dice_.between(1, 5);
    limits_.budget = true;
  }
  return o;
}

void Ledger::create_cache() {
  quire_error err = QUIRE_INIT(quire_error);
  quire_runtime_options own = QUIRE_INIT(quire_runtime_options);
  own.header_abi = QUIRE_ABI_VERSION;
  own.flags = QUIRE_RUNTIME_NO_ENV;
  own.clock = [](void* time) { return *static_cast<const int64_t*>(time); };
  own.clock_user = &time_;
  if (tiered_) offer_tiers(&own);
  quire_runtime* runtime = nullptr;
  must_call(quire_runtime_create(&own, &runtime, &err), err, "runtime");
  runtime_.reset(runtime);
  quire_cache_options options = draw_options();
  quire_cache* cache = nullptr;
  quire_code code = quire_cache_create(runtime_.get(), plan_.config.get(), &options, &cache, &err);
  for (; code == QUIRE_INVALID_ARGUMENT && options.checkpoint_bytes != 0; options.checkpoint_bytes *= 2) {
    if (options.checkpoint_bytes > 1 << 30) break;  // it is not the budget that is too small
    code = quire_cache_create(runtime_.get(), plan_.config.get(), &options, &cache, &err);
  }
  must_call(code, err, "cache");
  cache_.reset(cache);
  if (dice_.percent(40)) onlookers_.events = std::make_unique<EventView>(cache);
  if (dice_.percent(40)) onlookers_.follower = std::make_unique<FollowedSteps>(&plan_, options);
  const auto group = static_cast<uint32_t>(dice_.below(plan_.groups.size()));
  if (plan_.groups[group].is_state == 0 && dice_.percent(40)) onlookers_.uploaded = std::make_unique<UploadedTables>(&plan_, group);
  if (dice_.percent(40)) onlookers_.uses = std::make_unique<UsesInFlight>(&plan_);
  if (!inherits_) add_media();  // the names of records have the digests of media, and these would have other symbols here
}

void Ledger::add_media() {
  quire_error err = QUIRE_INIT(quire_error);
  for (uint64_t i = dice_.below(3); i > 0; --i) {
    const uint8_t digest[32] = {static_cast<uint8_t>(i)};
    quire_symbol first = 0;
    const uint32_t length = dice_.small(1, 9);
    must_call(quire_cache_add_media(cache_.get(), digest, length, &first, &err), err, "media");
    phrases_.add_media(first, length);
  }
}

void Ledger::trace(const char* what, uint64_t a, uint64_t b, uint64_t c) const {
  if (!mode_.verbose) return;
  std::printf("%s %llx %llu %llu\n", what, static_cast<unsigned long long>(a), static_cast<unsigned long long>(b),
              static_cast<unsigned long long>(c));
}

Sequence* Ledger::alive(const TakenRow& row) {
  for (Sequence& s : sequences_) {
    if (s.life == row.life) return &s;
  }
  return nullptr;
}

void Ledger::empty(Sequence* s) {
  s->life = next_life_++;
  s->committed = s->reserved = s->known = 0;
  s->in_flight = 0;
  s->loading = false;
  s->fetch = 0;
  s->whole = true;
  s->evicted_before = stats().evicted_blocks;
  s->encoder = plan_.encoder == 0 ? 0 : dice_.between(1, plan_.encoder);
  s->encoder_hash = dice_.roll();
}

void Ledger::rewrite(Sequence* s, uint64_t from) {
  s->text.cut(std::min(from, s->text.size()));
  while (s->text.size() < limits_.longest + 2) s->text.append(phrases_.next());
}

TakenRow Ledger::row_of(const Sequence& s, uint64_t position, uint64_t end) const {
  TakenRow row;
  row.id = s.id;
  row.life = s.life;
  row.family = s.family;
  row.position = position;
  row.end = end;
  row.encoder = s.encoder;
  row.encoder_hash = s.encoder_hash;
  row.hashes.assign(s.text.hashes().begin(), s.text.hashes().begin() + static_cast<long>(end + 2));
  return row;
}

void Ledger::agree(const Sequence& s) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_sequence_info info = QUIRE_INIT(quire_sequence_info);
  must_call(quire_sequence_get_info(cache_.get(), s.id, &info, &err), err, "info");
  if (info.committed == s.committed && info.reserved == s.reserved && info.known == s.known) return;
  const auto numbers = [](uint64_t committed, uint64_t reserved, uint64_t known) {
    return std::to_string(committed) + "/" + std::to_string(reserved) + "/" + std::to_string(known);
  };
  char id[24];
  std::snprintf(id, sizeof id, "%llx", static_cast<unsigned long long>(s.id));
  throw Mismatch("sequence " + std::string(id) + " has " + numbers(info.committed, info.reserved, info.known) +
                 " tokens committed/reserved/known, expected " + numbers(s.committed, s.reserved, s.known));
}

uint64_t Ledger::length_of(const Sequence& s) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_sequence_info info = QUIRE_INIT(quire_sequence_info);
  must_call(quire_sequence_get_info(cache_.get(), s.id, &info, &err), err, "info");
  return info.reserved;
}

uint64_t Ledger::probed(const Owner& owner, const std::vector<quire_symbol>& symbols, uint64_t n) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_probe_result result = QUIRE_INIT(quire_probe_result);
  const quire_identity identity = owner.describe(0);
  must_call(quire_probe(cache_.get(), &identity, symbols.data(), n, &result, &err), err, "probe");
  return result.hit_tokens;
}

quire_cache_stats Ledger::stats() const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_cache_stats stats = QUIRE_INIT(quire_cache_stats);
  must_call(quire_cache_get_stats(cache_.get(), &stats, &err), err, "stats");
  return stats;
}

void Ledger::room_was_made(const quire_reserve_entry& e, const quire_reserve_result& got, const Sequence& s) const {
  if (e.num_look_ahead == 0 || (got.flags & QUIRE_RESULT_CHUNK_STOP) != 0) return;
  uint64_t parts = 0;
  for (const quire_group_info& group : plan_.groups) {
    if (group.is_state != 0 || group.window != 0 || group.chunk != 0 || group.encoder_tokens != 0) continue;
    const uint64_t tokens = std::min(got.position + got.num_tokens + e.num_look_ahead, plan_.info.max_model_len);
    parts += (tokens + group.block_tokens - 1) / group.block_tokens * group.ids_per_block;
  }
  quire_error err = QUIRE_INIT(quire_error);
  quire_sequence_info info = QUIRE_INIT(quire_sequence_info);
  must_call(quire_sequence_get_info(cache_.get(), s.id, &info, &err), err, "info");
  demand(info.num_parts >= parts, "no memory for the look-ahead");
}

void Ledger::count_traits() const {
  static constexpr std::array<const char*, kNumCodecs> kCodecNames = {"rows strided",  "rows record",   "rows block split", "rows tiled",
                                                                      "rows shuffled", "rows column K", "rows amx"};
  const auto count = [this](const char* name, bool has, uint64_t reads) {
    TraitTally& trait = tallies_.traits[name];
    trait.runs += has ? 1 : 0;
    trait.reads += has ? reads : 0;
  };
  const uint64_t reads = bytes_->reads();
  count("tensor parallel", plan_.head_ranks > 1, reads);
  count("pipeline parallel", plan_.stages > 1, reads);
  count("context parallel", plan_.token_ranks > 1, reads);
  count("state branches", plan_.states && limits_.branches > 0, reads);
  count("states in place", limits_.in_place, reads);
  count("states at blocks", plan_.states && limits_.at_blocks, reads);
  count("checkpoint budget", limits_.budget, reads);
  count("steps in flight", limits_.depth > 1, reads);
  count("tiers", tiered_, reads);
  count("others' ranks", inherits_, reads);
  count("events", onlookers_.events != nullptr, reads);
  count("follower", onlookers_.follower != nullptr, reads);
  for (size_t i = 0; i < kNumCodecs; ++i) count(kCodecNames[i], bytes_->reads_of_codecs()[i] > 0, bytes_->reads_of_codecs()[i]);
}

void Ledger::count_alike() const {
  const quire_cache_stats now = stats();
  const Counters& c = counters_;
  demand(now.num_sequences == sequences_.size(), "stats: sequences");
  demand(now.pages_free + now.pages_evictable + now.pages_used + 1 == now.pages_total, "stats: pages");
  demand(now.steps == c.steps && now.aborted_steps == c.aborted_steps, "stats: steps");
  demand(now.refused_entries == c.refused_entries, "stats: refused entries");
  demand(now.preemptions == c.preemptions && now.forks == c.forks, "stats: preemptions and forks");
  demand(now.matches == c.matches && now.matched_prompt_tokens == c.matched_prompt_tokens, "stats: matches");
  demand(now.hit_tokens == c.hit_tokens, "stats: tokens of hits");
}

void Ledger::nothing_changed(const quire_cache_stats& before) const {
  if (std::any_of(pins_.begin(), pins_.end(), [this](const Pin& pin) { return overdue(pin); })) return;  // calls end them
  const quire_cache_stats now = stats();
  demand(now.pages_free == before.pages_free && now.pages_evictable == before.pages_evictable && now.pages_used == before.pages_used &&
             now.parts_used == before.parts_used && now.parts_cached == before.parts_cached && now.index_units == before.index_units &&
             now.pins == before.pins && now.evicted_blocks == before.evicted_blocks,
         "a refused call has changed something");
}

void Ledger::found_again(const Sequence& s) {
  if (!limits_.finds_all || !s.whole || (s.flags & QUIRE_SEQUENCE_NO_PUBLISH) != 0 || stats().evicted_blocks != s.evicted_before) return;
  const uint64_t unit = grid_of(plan_);
  if (unit >= plan_.info.max_model_len) return;  // a hit leaves one token to compute, so there is none
  const uint64_t tokens = probed(s.owner, s.text.symbols(), s.committed + 1);
  if (tokens >= s.committed / unit * unit) return tallies_.count(kFoundAgain);
  throw Mismatch("of " + std::to_string(s.committed) + " tokens only " + std::to_string(tokens) +
                 " are found again; blocks: " + std::to_string(unit));
}

void Ledger::done(const TakenStep& taken) {
  if (onlookers_.uses != nullptr) onlookers_.uses->end(taken);
  if (onlookers_.uploaded != nullptr) onlookers_.uploaded->drop(taken);
}

void Ledger::take(TakenStep* taken) {
  take_arrays(plan_, taken);
  if (onlookers_.uses != nullptr) {
    onlookers_.uses->begin(*taken);
    tallies_.count(kWatched);
  }
  if (dice_.percent(4)) compare_fills(plan_, *taken, dice_);
  if (onlookers_.uploaded != nullptr) {
    onlookers_.uploaded->take(*taken);
    tallies_.count(kUploaded);
  }
  if (onlookers_.follower != nullptr && dice_.percent(10)) {
    onlookers_.follower->compare(*taken, dice_);
    tallies_.count(kFollowed);
  }
}

}  // namespace quire::stamps
