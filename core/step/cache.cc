#include "core/step/cache.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <numeric>
#include <random>

#include "core/base/checked.h"
#include "core/prefix/identity.h"
#include "core/step/state.h"
#include "core/step/step_bytes.h"

namespace quire {
namespace {

constexpr uint64_t kMaxLoads = QUIRE_MAX_LOADS;
constexpr uint32_t kKeepAll = QUIRE_KEEP_EVERY | QUIRE_KEEP_CHUNK_END | QUIRE_KEEP_PROMPT_END | QUIRE_KEEP_JUNCTION | QUIRE_KEEP_ASKED;

uint32_t or_default(uint32_t value, uint32_t fallback) { return value == 0 ? fallback : value; }

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
IndexShape index_shape(const Config& config, const quire_cache_options& o, const Limits& limits, bool reuse) {
  IndexShape shape;
  shape.unit_tokens = reuse ? config.match_unit_tokens : 1;
  shape.hit_alignment_tokens = config.hit_alignment_tokens;
  shape.max_nodes = !reuse ? 0 : o.max_index_units != 0 ? o.max_index_units : default_index_units(config, limits.max_sequences);
  shape.max_roots = or_default(o.max_roots, 1024);
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

}  // namespace

Result<Limits> read_limits(const quire_cache_options& o) {
  Limits l;
  l.max_sequences = or_default(o.max_sequences, 256);
  l.max_entries = or_default(o.max_entries_per_step, l.max_sequences);
  l.max_tokens = or_default(o.max_tokens_per_step, 8192);
  l.depth = or_default(o.step_depth, 2);
  l.watermark_pages = o.watermark_pages;
  l.checkpoint_interval = o.checkpoint_interval;
  l.branches = o.num_state_branches;
  l.in_place = (o.flags & QUIRE_CACHE_STATES_IN_PLACE) != 0;
  l.at_blocks = (o.flags & QUIRE_CACHE_STATES_AT_BLOCKS) != 0;
  if (l.branches > 64) return invalid("num_state_branches: %u, at most 64", l.branches);
  l.keep = o.keep_states == 0 ? kKeepAll : o.keep_states;
  if ((l.keep & ~kKeepAll) != 0) return invalid("keep_states: unknown bits in 0x%x", o.keep_states);
  if (l.depth > 8) return invalid("step_depth: %u, at most 8", l.depth);
  if (l.max_sequences > 1u << 20) return invalid("max_sequences: %u, at most 1048576", l.max_sequences);
  if (l.max_entries > l.max_sequences)
    return invalid("max_entries_per_step: %u, at most max_sequences (%u)", l.max_entries, l.max_sequences);
  if (l.max_tokens > 1u << 24) return invalid("max_tokens_per_step: %u, at most 16777216", l.max_tokens);
  if (o.max_media > 1u << 24) return invalid("max_media: %llu, at most 16777216", static_cast<unsigned long long>(o.max_media));
  if (o.max_pins > 4096) return invalid("max_pins: %u, at most 4096", o.max_pins);
  l.window_interval = o.window_interval;
  if (l.window_interval > uint64_t{1} << 40 && l.window_interval != QUIRE_WINDOWS_AT_ENDS) {
    return invalid("window_interval: %llu, at most 2^40 tokens", static_cast<unsigned long long>(l.window_interval));
  }
  if (l.checkpoint_interval > uint64_t{1} << 40) {
    return invalid("checkpoint_interval: %llu, at most 2^40 tokens", static_cast<unsigned long long>(l.checkpoint_interval));
  }
  return l;
}

Cache::Cache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cache::~Cache() = default;
const Config& Cache::config() const { return *impl_->config; }

Result<std::unique_ptr<Cache>> Cache::create(std::shared_ptr<const Config> config, const quire_cache_options& options) {
  auto limits = read_limits(options);
  if (!limits.ok()) return limits.take_status();
  if (limits->checkpoint_interval == 0) limits->checkpoint_interval = config->checkpoint_tokens;
  if ((options.flags & ~kCacheFlags) != 0) return invalid("flags: unknown bits in 0x%x", options.flags);
  if (limits->watermark_pages >= config->num_pages) {
    return invalid("watermark_pages: %u, below the %llu pages of the plan", limits->watermark_pages,
                   static_cast<unsigned long long>(config->num_pages));
  }
  std::vector<PoolGroup> groups;
  uint64_t most_encoder = 0;
  for (const GroupPlan& g : config->groups) {
    groups.push_back(PoolGroup{g.parts_per_page, g.ids_per_block});
    if (g.live.fixed) most_encoder = most_encoder == 0 ? g.encoder_tokens : std::min(most_encoder, g.encoder_tokens);
  }
  auto pool = Pool::create(config->num_pages, groups);
  if (!pool.ok()) return pool.take_status();
  // A hit leaves one token to compute: where the first boundary is as far as the longest sequence there is none.
  const bool reuse = config->prefix_reuse && (options.flags & QUIRE_CACHE_NO_PREFIX_REUSE) == 0 && most_encoder == 0 &&
                     config->hit_alignment_tokens < config->max_model_len;
  auto index = PrefixIndex::create(index_shape(*config, options, *limits, reuse));
  if (!index.ok()) return index.take_status();
  const uint64_t symbols_in_flight = reuse ? uint64_t{limits->max_tokens} * (limits->depth + 1) : 0;
  auto sequences = Sequences::create(*config, limits->max_sequences, symbols_in_flight, limits->branches + 1);
  if (!sequences.ok()) return sequences.take_status();
  auto impl = std::make_unique<Impl>(std::move(config), std::move(pool.value()), std::move(index.value()), std::move(sequences.value()),
                                     options.max_media != 0 ? options.max_media : 4096);
  impl->limits = *limits;
  impl->of_plan = plan_digest(*impl->config);
  impl->reuse = reuse;
  impl->most_encoder = most_encoder;
  impl->strict_lru = (options.flags & QUIRE_CACHE_STRICT_LRU) != 0;
  impl->pins.resize(or_default(options.max_pins, 64));
  impl->pin_quota = options.pin_quota_tokens;
  impl->prepare_scratch();
  QUIRE_RETURN_IF_ERROR(impl->prepare_checkpoints(options.checkpoint_bytes));
  return std::unique_ptr<Cache>(new Cache(std::move(impl)));
}

GroupFacts Cache::Impl::facts_of(const GroupPlan& g) const {
  GroupFacts f;
  f.live = g.live;
  f.block = Grid(g.block_tokens);
  f.columns = g.ids_per_block;
  f.state = g.is_state();
  f.grows = !g.is_state() && !g.live.fixed;
  f.whole = g.live.everything();
  f.falls = f.grows && !f.whole;
  f.block_tokens = g.block_tokens;
  f.look_ahead = drafts_into(g) ? g.look_ahead : 0;
  // A hit that drops a block needs one behind the boundary, which is not written yet when its state is kept.
  f.with_states = f.falls && has_states && f.look_ahead == 0 && !strict_lru;
  f.only_with_states = f.sparse = f.with_states && limits.window_interval == 0;
  if (!f.grows || g.live.window == 0 || f.sparse) return f;
  const uint64_t joint_tokens = config->hit_alignment_tokens;
  const uint64_t interval = limits.window_interval == 0 ? joint_tokens : round_up(limits.window_interval, joint_tokens);
  f.kept = static_cast<uint32_t>(std::max<uint64_t>(ceil_div(g.live.window - 1, g.block_tokens), 1) + (f.look_ahead > 0 ? 1 : 0));
  f.period = limits.window_interval == QUIRE_WINDOWS_AT_ENDS
                 ? 0
                 : static_cast<uint32_t>(std::clamp<uint64_t>(interval / g.block_tokens, 1, kNone));
  f.sparse = f.period == 0 || f.kept < f.period;
  return f;
}

// All that steps will ever write into, allocated now.
void Cache::Impl::prepare_scratch() {
  uint32_t most_ids = 1, most_parts = 1;
  spacing = config->hit_alignment_tokens;
  for (const GroupPlan& g : config->groups) spacing = g.is_state() ? std::lcm(spacing, uint64_t{g.block_tokens}) : spacing;
  if (limits.checkpoint_interval > 0) spacing = round_up(limits.checkpoint_interval, config->hit_alignment_tokens);
  uint64_t columns = 0, parts_per_step = 0, num_writes = 0;
  joint = Grid(config->hit_alignment_tokens);
  has_states = std::any_of(config->groups.begin(), config->groups.end(), [](const GroupPlan& g) { return g.is_state(); });
  swaps_states = has_states && limits.branches == 0 && !limits.in_place && !limits.at_blocks;
  if (reuse) publish_path.reserve(config->max_model_len / config->match_unit_tokens + 1);
  for (const GroupPlan& g : config->groups) {
    facts.push_back(facts_of(g));
    if (g.is_state()) state_groups.push_back(static_cast<uint32_t>(facts.size() - 1));
    has_drafts = has_drafts || facts.back().look_ahead > 0;
    has_falling = has_falling || facts.back().falls;
    fine = fine || (!g.live.fixed && config->hit_alignment_tokens % g.block_tokens != 0);
    most_ids = std::max(most_ids, g.ids_per_block);
    most_parts = std::max(most_parts, g.parts_per_page);
    columns += g.ids_per_block;
    const uint64_t writes = g.is_state() ? writes_per_step() : 0;
    num_writes += writes;
    parts_per_step += uint64_t{g.ids_per_block} * (limits.max_tokens / g.block_tokens + 4ull * limits.max_entries + writes);
    if (g.live.fixed) parts_per_step += uint64_t{g.ids_per_block} * limits.max_entries * g.table_blocks(0);
  }
  uint64_t blocks = 1, sizes = 0;  // of groups that need everything
  for (const GroupFacts& f : facts) {
    if (!f.whole || !f.grows || (sizes > 0 && blocks == f.block_tokens)) continue;
    blocks = std::lcm(blocks, uint64_t{f.block_tokens});
    ++sizes;
  }
  pin_grid = fine && sizes > 1 ? blocks : 1;
  block_grid = blocks;
  scratch_parts.resize(most_ids);
  scratch_heads.resize(most_parts);
  page_marks.assign(config->num_pages, 0);
  idle_by_hit.assign(num_groups(), 0);
  publish_fronts.assign(num_groups(), Front{});
  opened_by_hit.assign(num_groups(), 0);
  prepare_alone();
  steps.resize(limits.depth);
  for (Step& step : steps) prepare_step(&step, limits.max_entries, columns, num_writes, parts_per_step);
  loads.resize(std::min<uint64_t>(kMaxLoads, limits.max_sequences));
  const uint64_t states = has_states ? uint64_t{num_groups()} * (limits.branches + 1) : 0;
  uint64_t parts_per_load = 0;
  for (const GroupPlan& g : config->groups)
    parts_per_load += uint64_t{g.ids_per_block} * ((g.is_state() ? 0 : g.table_blocks(limits.max_tokens)) + limits.branches + 4);
  for (Step& load : loads) prepare_step(&load, 1, columns, states, parts_per_load);
}

void Cache::Impl::prepare_step(Step* step, uint64_t rows, uint64_t columns, uint64_t writes, uint64_t parts) {
  step->rows.reserve(rows);
  step->groups.resize(rows * num_groups());
  step->replaced.reserve(rows * num_groups());
  step->copies.reserve(rows * columns);
  step->writes.reserve(writes);
  step->zeroes.reserve(std::min<uint64_t>(pool.num_part_slots(), parts));
}

uint64_t Cache::host_bytes() const {
  const Impl& m = *impl_;
  uint64_t bytes = m.pool.host_bytes() + m.index.host_bytes() + m.checkpoints.host_bytes() + m.sequences.host_bytes() +
                   m.page_marks.capacity() * 8 + m.uses_by_hit.capacity() * 4 + m.media.host_bytes() + m.pins.capacity() * sizeof(Pin);
  for (const std::vector<Step>* steps : {&m.steps, &m.loads}) {
    for (const Step& s : *steps)
      bytes += s.rows.capacity() * sizeof(Row) + s.groups.capacity() * sizeof(RowGroup) + s.replaced.capacity() * sizeof(Replaced) +
               s.copies.capacity() * sizeof(quire_copy) + s.zeroes.capacity() * sizeof(quire_zero) +
               s.writes.capacity() * sizeof(StateWrite);
  }
  return bytes;
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
    for (const DroppedBlock& d : m.index.drop_oldest_root()) {
      m.unpublish_block(d.group, d.head);
      ++m.counters.evicted_blocks;
    }
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
  s.publishing = m.reuse && (flags & QUIRE_SEQUENCE_NO_PUBLISH) == 0;
  return m.sequences.id(q);
}

// Empty again: everything given back, the cursor at the root, rows in flight cut off.
void Cache::Impl::reset_sequence(uint32_t q) {
  release_all(q);
  Sequence& s = sequences.at(q);
  sequences.drop_symbols(q);
  NodeId top = index.root_node(s.root);
  index.hold(top);
  index.drop(s.node);
  s.node = top;
  ++s.incarnation;
  s.publishing = reuse && (s.flags & QUIRE_SEQUENCE_NO_PUBLISH) == 0;
  s.may_share = s.lost = s.loading = false;
  s.in_flight = 0;
  set_reserved(&s, 0);
  s.encoder = 0;
  s.committed = s.known = s.published = s.hit_tokens = 0;
}

Status Cache::sequence_finish(SequenceId id) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  uint32_t q = m.sequences.find(id);
  if (q == kNone) return fail(QUIRE_NOT_FOUND, "sequence: 0x%llx is not live", static_cast<unsigned long long>(id.value));
  if (m.sequences.at(q).loading) return fail(QUIRE_FAILED_PRECONDITION, "sequence: a load of it is in progress; end it first");
  m.release_all(q);
  m.set_reserved(&m.sequences.at(q), 0);
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
  if (q == kNone) return fail(QUIRE_NOT_FOUND, "sequence: 0x%llx is not live", static_cast<unsigned long long>(id.value));
  if (m.sequences.at(q).loading) return fail(QUIRE_FAILED_PRECONDITION, "sequence: a load of it is in progress; end it first");
  m.reset_sequence(q);
  ++m.counters.preemptions;
  return {};
}

Status Cache::sequence_info(SequenceId id, quire_sequence_info* info) {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  uint32_t q = m.sequences.find(id);
  if (q == kNone) return fail(QUIRE_NOT_FOUND, "sequence: 0x%llx is not live", static_cast<unsigned long long>(id.value));
  const Sequence& s = m.sequences.at(q);
  info->steps_in_flight = s.in_flight;
  info->committed = s.committed;
  info->reserved = s.reserved;
  info->known = s.known;
  info->hit_tokens = s.hit_tokens;
  info->encoder_tokens = s.encoder;
  info->num_parts = 0;
  for (uint32_t g = 0; g < m.num_groups(); ++g) {
    const Holding& h = m.sequences.holding(q, g);
    uint64_t blocks = 0;
    for (uint32_t b = 0; b < h.num_blocks; ++b) blocks += m.block_head(q, g, b).value != kNone ? 1 : 0;
    if (m.plan(g).is_state()) blocks = (h.current.value != kNone ? 1u : 0u) + h.num_spares;
    info->num_parts += blocks * m.plan(g).ids_per_block;
  }
  return {};
}

Status Cache::add_media(const uint8_t* digest, uint32_t length, quire_symbol* first) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  return m.media.add(digest, length, m.events.enabled() ? &m.events.names() : nullptr, first);
}

Status Cache::probe(const quire_identity* identity, std::span<const quire_symbol> symbols, quire_probe_result* result) const {
  auto encoded = Identity::encode(identity);
  if (!encoded.ok()) return encoded.take_status();
  const Impl& m = *impl_;
  Match match;
  match.miss = QUIRE_MISS_DISABLED;
  bool reads = identity == nullptr || (identity->flags & QUIRE_SEQUENCE_NO_MATCH) == 0;
  if (m.reuse && reads) match = m.index.glance(encoded->bytes(), symbols);
  result->miss = match.miss;
  result->hit_tokens = match.hit_tokens;
  result->full_hit_tokens = match.full_hit_tokens;
  return {};
}

void Cache::stats(quire_cache_stats* stats) const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  uint32_t size = stats->struct_size;
  *stats = m.counters;
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
}

bool Cache::Impl::nothing_is_held() const {
  if (pool.used_pages() > 0 || counters.pins > 0) return false;
  for (uint32_t q = 0; q < sequences.capacity(); ++q) {
    const Sequence& s = sequences.at(q);
    if (s.live && s.node != index.root_node(s.root)) return false;
  }
  return true;
}

// All at once, however much it is: what was cached is not found any more, and goes for good when its room is taken.
void Cache::Impl::abandon_all() {
  index.abandon();
  pool.abandon();
  checkpoints.clear();
  counters.checkpoint_bytes = 0;
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
  if (m.num_steps > 0) return fail(QUIRE_FAILED_PRECONDITION, "reset: %u steps are in flight", m.num_steps);
  for (Pin& pin : m.pins) {
    if (pin.id != 0) m.end_pin(&pin);
  }
  if (m.nothing_is_held()) {
    m.abandon_all();
    return {};
  }
  for (uint32_t p = 1; p < m.pool.num_pages(); ++p) {
    // Forgetting a block may empty the page, and others with it.
    while (m.pool.group_of(PageId(p)).value != kNone) {
      GroupId group = m.pool.group_of(PageId(p));
      uint32_t n = m.pool.cached_heads(PageId(p), m.scratch_heads);
      if (n == 0 || m.index.is_stale(m.pool.node(m.scratch_heads[0]))) break;
      m.forget_block(m.pool.node(m.scratch_heads[0]), group, false);
    }
  }
  return {};
}

}  // namespace quire
