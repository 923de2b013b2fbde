#include "tests/model/random_engine.h"

#include <algorithm>
#include <tuple>

namespace quire::model {

const char* const kOperationNames[kNumOperations] = {"hit",
                                                     "evict",
                                                     "hand-over",
                                                     "abort",
                                                     "fork",
                                                     "rollback",
                                                     "preempt",
                                                     "in-flight finish",
                                                     "failure",
                                                     "truncate",
                                                     "reset",
                                                     "burst",
                                                     "look-ahead",
                                                     "full-length",
                                                     "watermark",
                                                     "small-index",
                                                     "few-roots",
                                                     "media",
                                                     "late-symbols",
                                                     "no-share",
                                                     "states-in-place",
                                                     "branches",
                                                     "states-at-blocks",
                                                     "unstarted",
                                                     "hits-inside",
                                                     "keep-states",
                                                     "forget",
                                                     "pin",
                                                     "load",
                                                     "load-failure",
                                                     "checkpoint-interval",
                                                     "drafts",
                                                     "checkpoint-bytes",
                                                     "give-up-state",
                                                     "encoder",
                                                     "events",
                                                     "hold",
                                                     "late-transfer",
                                                     "units"};

void Tally::add(const Tally& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  steps += other.steps;
  rows += other.rows;
  reads += other.reads;
  verified += other.verified;
  digests += other.digests;
  many_groups += other.many_groups;
  engines += other.engines;
  drained += other.drained;
  plain += other.plain;
  views += other.views;
  guesses += other.guesses;
  hits += other.hits;
  late += other.late;
  shared += other.shared;
  reports += other.reports;
  unit_states += other.unit_states;
  given_up += other.given_up;
}

Engine::Engine(const RunOptions& options, Tally* tally)
    : options_(options), rng_(options.seed), tally_(*tally), shape_(random_shape(rng_, options.without)) {
  config_ = make_config(shape_.groups, shape_.pages, shape_.max_len, shape_.alignment);
  create_cache();
  memory_ = std::make_unique<Memory>(*config_, shape_.in_place);
  for (size_t s = 0; s < stems_.size(); ++s) {
    while (stems_[s].size() < shape_.max_len) {
      if (!media_.empty() && chance(rng_, 4)) {
        const auto& [first, length] = media_[pick(rng_, media_.size())];
        for (uint32_t i = 0; i < length; ++i) stems_[s].push_back(first + i);
      } else {
        stems_[s].push_back(static_cast<quire_symbol>(pick(rng_, 50)));
      }
    }
  }
  ++tally_.engines;
  if (shape_.groups.size() >= 3) ++tally_.many_groups;
  plain_ = std::all_of(shape_.groups.begin(), shape_.groups.end(),
                       [](const GroupSketch& g) { return g.parts_per_page == 1 && g.ids_per_block == 1; });
  if (plain_) ++tally_.plain;
}

void Engine::create_cache() {
  quire_cache_options options{};
  options.struct_size = sizeof options;
  options.max_sequences = shape_.max_running + 4;
  options.max_tokens_per_step = shape_.max_tokens;
  options.step_depth = shape_.depth;
  options.hash_seed = options_.seed | 1;
  options.num_state_branches = shape_.branches;
  if (shape_.in_place) options.flags |= QUIRE_CACHE_STATES_IN_PLACE;
  if (shape_.at_blocks) options.flags |= QUIRE_CACHE_STATES_AT_BLOCKS;
  const auto window = [](const GroupSketch& g) { return g.live.window != 0; };
  const bool windows = std::any_of(shape_.groups.begin(), shape_.groups.end(), window);
  if ((shape_.states || windows) && roll(kKeepStates, 30)) {
    options.keep_states = static_cast<uint32_t>(1 + pick(rng_, 31));
    note(kKeepStates);
  }
  if (shape_.encoder > 0) note(kEncoder);
  if (shape_.alignment != 0) note(kHitsInside);
  if (shape_.in_place) note(kStatesInPlace);
  if (shape_.branches > 0) note(kBranches);
  if (shape_.at_blocks) note(kStatesAtBlocks);
  options.max_roots = roll(kFewRoots, 15) ? 2 : 8;
  if (options.max_roots == 2) note(kFewRoots);
  options.watermark_pages = roll(kWatermark, 40) ? static_cast<uint32_t>(1 + pick(rng_, 6)) : 0;
  if (options.watermark_pages > 0) note(kWatermark);
  watermark_ = options.watermark_pages;
  if (chance(rng_, 30)) options.flags |= QUIRE_CACHE_STRICT_LRU;
  // Where no group needs everything the default is meant for larger pools than these.
  options.max_index_units = 400 + pick(rng_, 1200);
  if (roll(kSmallIndex, 10)) {
    options.max_index_units = 8 + pick(rng_, 60);
    note(kSmallIndex);
  }
  const auto drafts = [](const GroupSketch& g) { return g.look_ahead != 0; };
  if (std::any_of(shape_.groups.begin(), shape_.groups.end(), drafts)) note(kDrafts);
  options.max_pins = kMostPins;
  if ((shape_.states || windows) && roll(kCheckpointInterval, 30)) {
    options.checkpoint_interval = 1 + pick(rng_, 60);
    note(kCheckpointInterval);
  }
  if (shape_.states && roll(kCheckpointBytes, 40)) {
    uint64_t boundary = 0;  // a plan made by hand has pages of a byte
    for (const GroupSketch& g : shape_.groups) boundary += g.live.state ? ceil_div(g.ids_per_block, g.parts_per_page) : 0;
    options.checkpoint_bytes = checkpoint_budget_ = boundary + pick(rng_, 6 * boundary);
    note(kCheckpointBytes);
  }
  choose_holds(&options);
  auto made = Cache::create(config_, options);
  MODEL_REQUIRE(made.ok(), made.status().message());
  cache_ = std::move(made.value());
  follow_ = std::make_unique<Follow>(config_, options);
  for (uint8_t i = 0; allowed(kMedia) && i < 2; ++i) {
    const uint8_t digest[32] = {i};
    quire_symbol first = 0;
    const uint32_t length = 3 + 4 * i;
    require_ok(cache_->add_media(digest, length, &first), "add_media");
    media_.emplace_back(first, length);
  }
  begin_events();
}

// In every eighth engine. Dice of its own: with or without events everything else happens as it did.
void Engine::begin_events() {
  Rng rng(mix(0xe7, options_.seed));
  if (!allowed(kEvents) || pick(rng, 8) != 0) return;
  note(kEvents);
  const bool slow = chance(rng, 20);  // its ring is as small as can be
  reads_each_ = slow ? 100 : 1;
  static const quire_hash_algorithm algorithms[] = {QUIRE_HASH_XXHASH_CBOR, QUIRE_HASH_SHA256_CBOR, QUIRE_HASH_XXHASH_PICKLE};
  router_ = std::make_unique<Router>(config_, cache_.get(), algorithms[pick(rng, 3)], slow ? 50 << 10 : 0);
  for (const auto& [first, length] : media_) router_->name_media(cache_.get(), first, length);
}

// What a router was told is what there is, and what it would guess of a prompt is what the cache says.
void Engine::ask_router() {
  if (router_ == nullptr || tally_.steps % reads_each_ != 0) return;
  router_->follow(*cache_);
  router_->compare(*cache_);
  ++tally_.views;
  if (!router_->can_tell() || (requests_.empty() && history_.empty())) return;
  Rng rng(mix(options_.seed, tally_.views));
  uint32_t tenant = 0;
  std::vector<quire_symbol> text;
  if (!requests_.empty() && (history_.empty() || chance(rng, 50))) {
    const Request& r = requests_[pick(rng, requests_.size())];
    tenant = r.tenant;
    text = r.tokens;
  } else {
    std::tie(tenant, text) = history_[pick(rng, history_.size())];
  }
  if (chance(rng, 20)) tenant = static_cast<uint32_t>(pick(rng, kNumTenants));
  const quire_identity identity = identity_of(tenant, 0);
  quire_probe_result found{};
  require_ok(cache_->probe(&identity, text, &found), "probe");
  const uint64_t guessed = router_->hit(tenant, text);
  ++tally_.guesses;
  tally_.hits += guessed > 0 ? 1 : 0;
  const bool right = Router::is_alike(tenant) ? guessed >= found.hit_tokens : guessed == found.hit_tokens;
  MODEL_REQUIRE(right, "a router takes " + std::to_string(guessed) + " tokens for a hit, the cache " + std::to_string(found.hit_tokens));
}

quire_cache_stats Engine::stats() const {
  quire_cache_stats s{};
  s.struct_size = sizeof s;
  cache_->stats(&s);
  return s;
}

void Engine::run() {
  for (uint64_t i = 0; i < options_.steps; ++i) {
    rng_ = Rng(mix(options_.seed, i + 1));
    hold_rng_ = Rng(mix(0x401e, mix(options_.seed, i + 1)));
    try {
      step(true);
    } catch (const Wrong& wrong) {
      throw Wrong(std::string(wrong.what()) + " [step " + std::to_string(i) + "]");
    }
  }
  drain();
  close();
  const quire_cache_stats s = stats();
  note(kEvict, s.evicted_blocks);
  note(kHandOver, s.hand_overs);
  note(kGiveUpState, s.checkpoints_given_up);
  tally_.reads += memory_->reads();
  if (router_ != nullptr) tally_.late += router_->late();
}

void Engine::step(bool faults) {
  if (faults) {
    if (roll(kBurst, 2)) {
      note(kBurst);
      while (requests_.size() < shape_.max_running) arrive();
    } else if (requests_.size() < shape_.max_running && chance(rng_, 35)) {
      arrive();
    }
    disturb();
  }
  hold_and_let_go(faults);
  if (in_flight_.size() < shape_.depth) reserve(faults);
  if (faults && roll(kFailure, 3)) call_wrongly();
  if (faults && allowed(kFailure) && pick(rng_, 200) == 0) call_all_wrongly();
  if (faults && roll(kLoad, 12)) load(false);
  for (size_t i = loads_.size(); i > 0; --i) {
    if (!faults || chance(rng_, 30)) arrived(i - 1, faults);
  }
  // What holds while a step is in flight is looked at, too.
  if (!in_flight_.empty() && chance(rng_, 20)) check();
  const bool full = in_flight_.size() == shape_.depth;
  const bool settles = !in_flight_.empty() && (!faults || full || chance(rng_, 60));
  if (settles) settle(faults);
  if (settles || chance(rng_, 25)) check();
  ask_router();
}

// Nothing new comes and nothing goes wrong: everything that runs must reach its goal.
void Engine::drain() {
  uint64_t quiet = 0;
  for (size_t i = pins_.size(); i > 0; --i) {
    if (pins_[i - 1].priority == QUIRE_PIN_HARD) unpin(i - 1);
  }
  for (Request& r : requests_) r.goal = std::max(r.goal, std::min<uint64_t>(r.committed + 4, shape_.max_len - 6));
  while (!requests_.empty()) {
    MODEL_REQUIRE(++quiet < 5000, "liveness: requests do not end");
    rng_ = Rng(mix(options_.seed, ~quiet));
    hold_rng_ = Rng(mix(0x401e, mix(options_.seed, ~quiet)));
    step(false);
    for (size_t i = requests_.size(); i > 0; --i) {
      const Request& r = requests_[i - 1];
      if (r.in_flight > 0 || r.committed < r.goal) continue;
      finish(i - 1);
      ++tally_.drained;
    }
  }
  while (!in_flight_.empty()) commit(false);
  check();
  unpin_all();
  take_all_units();
  end_all_holds();
}

// Everything forgotten: every page is free again.
void Engine::close() {
  MODEL_REQUIRE(stats().pages_used == 0, "pages are in use though nobody runs");
  require_ok(cache_->reset(), "reset");
  if (router_ != nullptr) router_->follow(*cache_), router_->compare(*cache_);
  const quire_cache_stats s = stats();
  MODEL_REQUIRE(s.pages_free == s.pages_total - 1, "pages that are not free: " + std::to_string(s.pages_total - 1 - s.pages_free));
  MODEL_REQUIRE(s.index_units == 0, std::to_string(s.index_units) + " units are left");
  require_ok(cache_->verify(), "verify");
}

void Engine::check() {
  require_ok(cache_->verify(), "verify");
  ++tally_.verified;
  for (const Request& r : requests_) check_request(r);
  check_pins();
  if (!holds_.empty()) memory_->check_kept(holds_[pick(hold_rng_, holds_.size())]);
  if (!units_.taken.empty()) memory_->check_kept(units_.taken[pick(hold_rng_, units_.taken.size())]);
  check_stats();
}

void Engine::check_request(const Request& r) {
  quire_sequence_info info{};
  require_ok(cache_->sequence_info(r.id, &info), "sequence_info");
  const auto both = [&r](const char* what, uint64_t got, uint64_t wanted) {
    return std::string(what) + " of sequence " + std::to_string(r.id.value) + ": " + std::to_string(got) + ", expected " +
           std::to_string(wanted);
  };
  MODEL_REQUIRE(info.steps_in_flight == r.in_flight, both("steps in flight", info.steps_in_flight, r.in_flight));
  MODEL_REQUIRE(info.committed == r.committed, both("committed", info.committed, r.committed));
  MODEL_REQUIRE(info.reserved == r.reserved, both("reserved", info.reserved, r.reserved));
  MODEL_REQUIRE(info.known == r.known, both("known", info.known, r.known));
  const uint64_t encoder = r.reserved > 0 ? r.encoder : 0;
  MODEL_REQUIRE(info.encoder_tokens == encoder, both("encoder tokens", info.encoder_tokens, encoder));
  uint64_t least = 0, spare = 0;
  for (uint32_t g = 0; g < shape_.groups.size(); ++g) {
    const GroupSketch& group = shape_.groups[g];
    if (group.live.state) {
      least += r.committed > 0 ? group.ids_per_block : 0;
      spare += r.reserved > 0 ? group.ids_per_block * (shape_.branches + 1) : 0;
      continue;
    }
    uint64_t live = group.live.tail_begin(r.committed) / group.block_tokens;
    if (group.live.retained > 0) live = std::min<uint64_t>(live, r.first_live[g]);
    const uint64_t sink = ceil_div(group.live.sink_end(r.committed), group.block_tokens);
    const uint64_t all = r.blocks[g];
    uint64_t kept = (all > live ? all - live : 0) + std::min({sink, live, all});
    // What a load leaves out.
    for (uint64_t b = ceil_div(r.committed, group.block_tokens); r.loading && b < all; ++b) {
      kept -= left_out(group.live, group.block_tokens, b, r.reserved) ? 1 : 0;
    }
    least += kept * group.ids_per_block;
  }
  MODEL_REQUIRE(info.num_parts >= least && info.num_parts <= least + spare, both("parts", info.num_parts, least));
}

void Engine::check_stats() {
  const quire_cache_stats s = stats();
  const auto same = [](const char* what, uint64_t got, uint64_t wanted) {
    MODEL_REQUIRE(got == wanted, std::string(what) + ": " + std::to_string(got) + ", expected " + std::to_string(wanted));
  };
  same("sequences", s.num_sequences, requests_.size());
  same("pages", s.pages_free + s.pages_evictable + s.pages_used + 1, shape_.pages);
  same("steps", s.steps, expected_.steps);
  same("aborted steps", s.aborted_steps, expected_.aborted_steps);
  same("refused entries", s.refused_entries, expected_.refused_entries);
  same("preemptions", s.preemptions, expected_.preemptions);
  same("forks", s.forks, expected_.forks);
  same("copies", s.copies, expected_.copies);
  same("matches", s.matches, expected_.matches);
  same("matched prompt tokens", s.matched_prompt_tokens, expected_.matched_prompt_tokens);
  same("hit tokens", s.hit_tokens, expected_.hit_tokens);
  for (int m = 0; m < 8; ++m) same("misses", s.miss_reasons[m], expected_.miss_reasons[m]);
  MODEL_REQUIRE(checkpoint_budget_ == 0 || s.checkpoint_bytes <= checkpoint_budget_,
                "bytes of kept states: " + std::to_string(s.checkpoint_bytes) + " of " + std::to_string(checkpoint_budget_));
  MODEL_REQUIRE(s.recompute_avoided <= s.hit_tokens, "more recompute was avoided than hit");
  same("pins", s.pins, pins_.size());
  same("pins given up", s.pins_given_up, expected_.pins_given_up);
  same("loads", s.loads, loads_.size());
  uint64_t holds = holds_.size() + lates_.size() + units_.taken.size(), parts = 0;
  for (const Held& held : holds_) parts += held.num_parts;
  for (const Late& late : lates_) parts += late.held.num_parts;
  for (const Held& held : units_.taken) parts += held.num_parts;
  if (s.holds == holds) same("parts that are held", s.held_parts, parts);
  MODEL_REQUIRE(s.holds == holds || (units_.options.reasons != 0 && s.holds > holds && s.held_parts >= parts),
                "holds: " + std::to_string(s.holds) + ", expected " + std::to_string(holds));
  see_units(false);
  MODEL_REQUIRE(!with_units_ || !units_.sure || s.index_units + 100 < kMostUnits, "the index is full");
  if (requests_.empty() && in_flight_.empty() && pins_.empty() && s.holds == 0) same("pages in use by nobody", s.pages_used, 0);
  MODEL_REQUIRE(s.evicted_blocks >= evicted_ && s.hand_overs >= handed_over_, "counters run backward");
  evicted_ = s.evicted_blocks;
  handed_over_ = s.hand_overs;
}

Request* Engine::alive(const PlannedRow& row) {
  for (Request& r : requests_) {
    if (r.id == row.id && r.life == row.life) return &r;
  }
  return nullptr;
}

// Runs what is not run yet, oldest first, up to n steps in flight.
void Engine::run_until(size_t n) {
  std::vector<bool> alive_rows;
  for (size_t i = 0; i < n; ++i) {
    PlannedStep& planned = in_flight_[i];
    if (planned.ran) continue;
    if (chance(rng_, 20)) {
      alive_rows.clear();
      for (const PlannedRow& row : planned.rows) alive_rows.push_back(alive(row) != nullptr);
      memory_->compare(*cache_, planned, alive_rows);
    }
    memory_->run(planned);
    planned.ran = true;
  }
}

void run_engine(const RunOptions& options, Tally* tally) {
  Tally mine;
  Engine engine(options, &mine);
  engine.run();
  tally->add(mine);
}

}  // namespace quire::model
