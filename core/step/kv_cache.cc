#include "core/step/kv_cache.h"

#include <algorithm>
#include <mutex>
#include <random>

#include "core/base/checked.h"
#include "core/prefix/identity.h"
#include "core/step/cache_impl.h"

namespace quire {
namespace {

// Units of prefix that blocks of the pool can name: every unit on a useful path has a block of the groups that need everything.
uint64_t default_index_units(const Config& config, uint32_t max_sequences) {
  uint64_t units = 0;
  for (const GroupPlan& g : config.groups) {
    uint64_t blocks = config.num_pages * g.parts_per_page / g.ids_per_block;
    uint64_t mine = g.live.everything() ? blocks * (g.block_tokens / config.match_unit_tokens) : 0;
    units = std::max(units, mine);
  }
  if (units == 0) units = std::max<uint64_t>(uint64_t{1} << 16, config.num_pages * 64);
  return std::min<uint64_t>(units + uint64_t{4} * max_sequences, uint64_t{1} << 30);
}

// Without reuse there are roots and nothing below them.
IndexShape index_shape(const Facts& facts, const quire_cache_options& o) {
  const Config& config = *facts.config;
  IndexShape shape;
  shape.unit_tokens = facts.reuse ? config.match_unit_tokens : 1;
  shape.hit_alignment_tokens = config.hit_alignment_tokens;
  shape.max_nodes = !facts.reuse ? 0 : o.max_index_units != 0 ? o.max_index_units : default_index_units(config, facts.limits.max_sequences);
  shape.max_roots = o.max_roots != 0 ? o.max_roots : 1024;
  shape.seed = o.hash_seed;
  if (shape.seed == 0) {
    std::random_device device;
    shape.seed = (uint64_t{device()} << 32) ^ device();
  }
  for (const GroupPlan& g : config.groups) {
    shape.groups.push_back(IndexGroup{g.live, g.block_tokens, drafts_into(g) ? g.block_tokens : 0});
  }
  return shape;
}

void report(const Residency::Spans& spans, uint64_t* counts, uint64_t* sum_ns) {
  std::copy(spans.counts.begin(), spans.counts.end(), counts);
  *sum_ns = spans.sum_ns;
}

// Of a cache or a group.
template <typename Stats>
void report_residency(const Residency::Counts& counts, Stats* stats) {
  report(counts.lifetime, stats->page_lifetime, &stats->page_lifetime_ns);
  report(counts.idle, stats->page_idle, &stats->page_idle_ns);
  report(counts.reuse_gap, stats->page_reuse_gap, &stats->page_reuse_gap_ns);
}

}  // namespace

Cache::Cache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cache::~Cache() = default;
const Config& Cache::config() const { return *impl_->facts.config; }
std::shared_ptr<const Config> Cache::shared_config() const { return impl_->facts.config; }

Result<Capacity> Cache::capacity(std::shared_ptr<const Config> config, const quire_cache_options& options, uint64_t tokens,
                                 uint64_t concurrency) {
  auto facts = Facts::make(std::move(config), options);
  if (!facts.ok()) return facts.take_status();
  return capacity_of(*facts->config, facts->use(), tokens, concurrency);
}

Result<std::unique_ptr<Cache>> Cache::create(std::shared_ptr<const Config> config, const quire_cache_options& options, CacheClock clock) {
  auto facts = Facts::make(std::move(config), options);
  if (!facts.ok()) return facts.take_status();
  std::vector<PoolGroup> groups;
  for (const GroupPlan& g : facts->config->groups) groups.push_back(PoolGroup{g.parts_per_page, g.ids_per_block});
  auto pool = Pool::create(facts->config->num_pages, groups, facts->protected_part());
  if (!pool.ok()) return pool.take_status();
  auto index = PrefixIndex::create(index_shape(*facts, options));
  if (!index.ok()) return index.take_status();
  const Limits& limits = facts->limits;
  // Those of steps, of what a commit gives ahead, and of loads.
  const uint64_t in_steps = uint64_t{limits.max_tokens} * (limits.depth + 1);
  const uint64_t in_loads = limits.max_loads * limits.max_load_tokens;
  const uint64_t symbols_in_flight = facts->reuse ? in_steps + in_loads : 0;
  auto sequences = Sequences::create(*facts->config, limits.max_sequences, symbols_in_flight, limits.branches + 1);
  if (!sequences.ok()) return sequences.take_status();
  auto impl = std::make_unique<Impl>(std::move(*facts), std::move(*pool), std::move(*index), std::move(*sequences), options);
  QUIRE_RETURN_IF_ERROR(impl->budget.prepare(options.checkpoint_bytes));
  impl->pins.set_clock(clock.now, clock.user);
  const Impl& m = *impl;
  impl->counters.host_bytes = m.pool.host_bytes() + m.index.host_bytes() + m.budget.host_bytes() + m.sequences.host_bytes() +
                              m.steps.host_bytes() + m.media.host_bytes() + m.admission.host_bytes() + m.pins.host_bytes() +
                              m.resume_points.host_bytes();
  return std::unique_ptr<Cache>(new Cache(std::move(impl)));
}

Result<SequenceId> Cache::sequence_create(const quire_identity* identity) {
  auto encoded = Identity::encode(identity);
  if (!encoded.ok()) return encoded.take_status();
  uint32_t flags = identity != nullptr ? identity->flags : 0;
  if ((flags & ~(QUIRE_SEQUENCE_NO_MATCH | QUIRE_SEQUENCE_NO_PUBLISH)) != 0) return invalid("identity.flags: unknown bits in 0x%x", flags);
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (m.sequences.num_live() == m.sequences.capacity())
    return fail(QUIRE_RESOURCE_EXHAUSTED, "max_sequences: all %u are in use", m.sequences.capacity());
  if (m.index.roots_are_taken() && m.index.find_root(encoded->bytes()) == kNone) {
    m.pins.end_overdue();
    m.units.give_up_waiting();
    if (!m.published.forget_oldest_root() && m.pins.give_up_root()) m.published.forget_oldest_root();
  }
  auto root = m.index.open_root(encoded->bytes());
  if (!root.ok()) return root.take_status();
  if (m.events.enabled()) {
    try {
      m.events.names().name_root(*root, identity != nullptr ? *identity : quire_identity{});
    } catch (...) {  // no memory for the names
      m.index.close_root(*root);
      throw;
    }
  }
  uint32_t q = m.sequences.open();
  Sequence& s = m.sequences.at(q);
  s.flags = flags;
  s.root = *root;
  s.node = m.index.root_node(*root);
  m.index.hold(s.node);
  s.publishing = m.facts.reuse && (flags & QUIRE_SEQUENCE_NO_PUBLISH) == 0;
  m.units.begin_text(q);
  return m.sequences.id(q);
}

// Empty again: everything given back, the cursor at the root, rows in flight cut off.
void Cache::Impl::reset_sequence(uint32_t q) {
  blocks.release_all(q);
  resume_points.end(q);
  Sequence& s = sequences.at(q);
  sequences.drop_symbols(q);
  NodeId top = index.root_node(s.root);
  index.hold(top);
  index.drop(s.node);
  s.node = top;
  ++s.incarnation;
  units.begin_text(q);
  s.publishing = facts.reuse && (s.flags & QUIRE_SEQUENCE_NO_PUBLISH) == 0;
  s.may_share = s.lost = s.loading = false;
  s.in_flight = 0;
  sequences.set_reserved(&s, 0);
  s.encoder = 0;
  s.committed = s.known = s.published = s.hit_tokens = s.branch_point = s.paused = s.prompt = s.shared = s.prompt_end = 0;
}

Status Cache::sequence_finish(SequenceId id) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  if (m.sequences.at(q).loading) return fail(QUIRE_FAILED_PRECONDITION, "sequence: a load of it is in progress; end it first");
  if (m.units.enabled()) m.units.note_end(q);
  m.blocks.release_all(q, m.prompt_ends.outputs.cold_from(m.sequences.at(q)));
  m.resume_points.end(q);
  m.sequences.set_reserved(&m.sequences.at(q), 0);
  uint32_t root = m.sequences.at(q).root;
  m.index.drop(m.sequences.at(q).node);
  m.index.close_root(root);
  m.sequences.close(q);
  return {};
}

Status Cache::sequence_preempt(SequenceId id) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  if (m.sequences.at(q).loading) return fail(QUIRE_FAILED_PRECONDITION, "sequence: a load of it is in progress; end it first");
  m.reset_sequence(q);
  ++m.counters.preemptions;
  return {};
}

Status Cache::sequence_info(SequenceId id, quire_sequence_info* info) {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  uint32_t q = m.sequences.find(id);
  if (q == kNone) return not_live(id);
  const Sequence& s = m.sequences.at(q);
  info->steps_in_flight = s.in_flight;
  info->committed = s.committed;
  info->reserved = s.reserved;
  info->known = s.known;
  info->hit_tokens = s.hit_tokens;
  info->encoder_tokens = s.encoder;
  info->num_parts = 0;
  for (uint32_t g = 0; g < m.facts.num_groups; ++g) {
    const Holding& h = m.sequences.holding(q, g);
    uint64_t blocks = 0;
    for (uint32_t b = 0; b < h.num_blocks; ++b) blocks += m.blocks.block_head(q, g, b).value != kNone ? 1 : 0;
    if (m.facts.plan(g).is_state()) blocks = (h.current.value != kNone ? 1u : 0u) + h.num_spares;
    info->num_parts += blocks * m.facts.plan(g).ids_per_block;
  }
  return {};
}

Status Cache::add_media(const uint8_t* digest, uint32_t length, quire_symbol* first) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  return m.media.add(digest, length, m.events.enabled() ? &m.events.names() : nullptr, first);
}

Status Cache::media_item(quire_symbol symbol, MediaFacts* item) const {
  std::shared_lock lock(impl_->mutex);
  const MediaFacts* const found = impl_->media.item_of(symbol);
  if (found == nullptr) return invalid("symbols: 0x%x stands for no media of this cache", symbol);
  *item = *found;
  return {};
}

Status Cache::probe(const quire_identity* identity, std::span<const quire_symbol> symbols, quire_probe_result* result) const {
  auto encoded = Identity::encode(identity);
  if (!encoded.ok()) return encoded.take_status();
  const Impl& m = *impl_;
  Match match;
  match.miss = QUIRE_MISS_DISABLED;
  bool reads = identity == nullptr || (identity->flags & QUIRE_SEQUENCE_NO_MATCH) == 0;
  if (m.facts.reuse && reads) match = m.index.match_lockfree(encoded->bytes(), symbols);
  result->miss = match.miss;
  result->hit_tokens = match.hit_tokens;
  result->full_hit_tokens = match.full_hit_tokens;
  return {};
}

Result<quire_pin_id> Cache::pin(const quire_identity* identity, std::span<const quire_symbol> symbols, const quire_pin_options& options,
                                uint64_t* tokens) {
  auto encoded = Identity::encode(identity);
  if (!encoded.ok()) return encoded.take_status();
  if (options.priority > QUIRE_PIN_HARD) return invalid("options.priority: %u, at most %u", options.priority, QUIRE_PIN_HARD);
  const std::string_view salt = identity == nullptr ? std::string_view() : std::string_view(identity->salt.data, identity->salt.len);
  // A match leaves a token to compute; a pin may hold all of them.
  std::vector<quire_symbol> prompt(symbols.begin(), symbols.end());
  prompt.push_back(0);
  std::unique_lock lock(impl_->mutex);
  return impl_->pins.make(encoded->bytes(), salt, prompt, options, tokens);
}

Status Cache::unpin(quire_pin_id id) {
  std::unique_lock lock(impl_->mutex);
  impl_->pins.end_overdue();
  return impl_->pins.end(id);
}

Status Cache::pin_info(quire_pin_id id, quire_pin_info* info) {
  std::unique_lock lock(impl_->mutex);
  impl_->pins.end_overdue();
  return impl_->pins.info(id, info);
}

void Cache::stats(quire_cache_stats* stats) const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  uint32_t size = stats->struct_size;
  *stats = m.counters;
  m.eviction.report(stats);
  stats->copies = m.blocks.num_copies();
  m.budget.report(stats);
  m.pins.report(stats);
  m.holds.report(stats);
  m.units.report(stats);
  stats->loads = m.steps.num_loads();
  stats->struct_size = size;
  PoolCounts c = m.pool.counts();
  stats->num_sequences = m.sequences.num_live();
  stats->pages_total = m.pool.num_pages();
  stats->pages_free = c.free_pages;
  stats->pages_evictable = c.evictable_pages;
  stats->pages_used = c.used_pages;
  stats->parts_used = c.held_parts;
  stats->parts_cached = c.cached_parts;
  stats->part_holes = c.holes;
  stats->index_units = m.index.num_nodes();
  stats->hand_overs = c.hand_overs;
  const Residency& residency = m.pool.residency;
  stats->page_sample = residency.sample();
  report_residency(residency.counts(), stats);
}

Status Cache::group_stats(uint32_t group, quire_group_stats* stats) const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  if (group >= m.facts.num_groups) return fail(QUIRE_OUT_OF_RANGE, "group: %u of %u", group, m.facts.num_groups);
  stats->group = group;
  const GroupPages pages = m.pool.pages_of(GroupId(group));
  stats->pages_used = pages.used;
  stats->pages_cached = pages.cached;
  report_residency(m.pool.residency.counts(group), stats);
  return {};
}

bool Cache::Impl::nothing_is_held() const {
  if (pool.used_pages() > 0 || pins.any()) return false;
  for (uint32_t q = 0; q < sequences.capacity(); ++q) {
    const Sequence& s = sequences.at(q);
    if (s.live && s.node != index.root_node(s.root)) return false;
  }
  return true;
}

// All at once, however much it is: what was cached is not found any more, and goes for good when its room is taken.
void Cache::Impl::retire_all() {
  index.retire_all();
  pool.retire_all();
  budget.clear();
  for (uint32_t q = 0; q < sequences.capacity(); ++q) {
    Sequence& s = sequences.at(q);
    const uint32_t renewal = s.live ? index.renewal(s.root) : kNone;
    if (renewal == kNone) continue;
    if (events.enabled()) events.name_root_like(renewal, s.root);
    index.move_hold(s.node, index.root_node(renewal));
    s.root = renewal;
    s.node = index.root_node(renewal);
  }
  if (events.enabled()) events.cleared();
}

Status Cache::reset() {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (m.steps.num_in_flight() > 0) return fail(QUIRE_FAILED_PRECONDITION, "reset: %u steps are in flight", m.steps.num_in_flight());
  m.pins.end_all();
  m.units.give_up_waiting();
  if (m.nothing_is_held()) {
    m.retire_all();
    return {};
  }
  m.eviction.forget_all();
  return {};
}

}  // namespace quire
