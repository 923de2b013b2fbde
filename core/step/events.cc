// Events: what is published and what is forgotten, told to the log when there is one.
#include <algorithm>
#include <mutex>
#include <new>

#include "core/step/state.h"

namespace quire {

void Cache::Impl::announce(uint32_t q, NodeId node, uint32_t group, PartIndex head) {
  record([&] {
    const uint32_t root = sequences.at(q).root;
    const NodeId before = block_begin(node, group);
    const Digest parent = index.tokens(before) > 0 ? digest_of(before, root) : Digest{};
    const Digest digest = digest_of(node, root);
    announced.push_back(Announced{group, index.tokens(node), node, head});
    events->enter(GroupId(group), head, digest, parent, static_cast<uint32_t>(announced.size() - 1));
  });
}

// The node may be gone already.
void Cache::Impl::renounce(PartIndex head) {
  record([&] { events->leave(head); });
}

// There was no memory to record something: readers take a snapshot, which has what still waits.
void Cache::Impl::lose_events() {
  for (const Announced& a : announced) {
    if (events->waits(a.head)) events->report(a.head);
  }
  announced.clear();
  events->lose();
}

// Mostly one hash: some group has a block where the parent ends.
Digest Cache::Impl::digest_of(NodeId node, uint32_t root) {
  hash_path.clear();
  const Digest* known = &events->none();
  for (NodeId n = node; index.tokens(n) > 0; n = index.parent(n)) {
    bool found = false;
    for (uint32_t g = 0; g < num_groups() && !found; ++g) {
      const PartIndex head = index.block_at(n, GroupId(g));
      if (head.value == kNone || events->digest(head).size == 0) continue;
      known = &events->digest(head);
      found = true;
    }
    if (found) break;
    hash_path.push_back(n);
  }
  Digest digest = *known;
  for (size_t i = hash_path.size(); i > 0; --i) {
    const NodeId n = hash_path[i - 1];
    digest = events->hash_unit(digest, index.symbols(n), root, index.tokens(n) - config->match_unit_tokens);
  }
  return digest;
}

// The block may be told by a part of its tokens.
NodeId Cache::Impl::block_begin(NodeId node, uint32_t group) const {
  const uint64_t begin = (index.tokens(node) - 1) / plan(group).block_tokens * plan(group).block_tokens;
  while (index.tokens(node) > begin) node = index.parent(node);
  return node;
}

// The symbols of the block that ends at a node.
void Cache::Impl::tell_symbols(NodeId node, uint32_t group, std::vector<NodeId>* path, EventBuilder* builder) const {
  path->clear();
  const uint64_t begin = (index.tokens(node) - 1) / plan(group).block_tokens * plan(group).block_tokens;
  for (NodeId n = node; index.tokens(n) > begin; n = index.parent(n)) path->push_back(n);
  for (size_t i = path->size(); i > 0; --i) builder->add_symbols(index.symbols((*path)[i - 1]));
}

// One event per group and run of blocks that follow one another. What was forgotten since it was published is left out: its
// node may be gone, and no reader knows of it.
void Cache::Impl::tell_announced(uint32_t q) {
  size_t n = 0;
  for (size_t i = 0; i < announced.size(); ++i) {
    if (events->waits(announced[i].head, static_cast<uint32_t>(i))) announced[n++] = announced[i];
  }
  announced.resize(n);
  std::sort(announced.begin(), announced.end(),
            [](const Announced& a, const Announced& b) { return a.group != b.group ? a.group < b.group : a.end < b.end; });
  const uint32_t root = sequences.at(q).root;
  EventBuilder& builder = events->builder();
  for (size_t i = 0; i < n;) {
    const Announced& first = announced[i];
    if (!events->report(first.head)) {
      ++i;
      continue;
    }
    const NodeId before = block_begin(first.node, first.group);
    const Digest& parent = events->parent(first.head);
    builder.start(events->group(GroupId(first.group)), GroupId(first.group), root, parent.size > 0 ? &parent : nullptr,
                  index.tokens(before));
    const uint32_t g = first.group;
    const uint64_t tokens = plan(g).block_tokens;
    for (bool goes_on = true; goes_on; ++i) {
      tell_symbols(announced[i].node, g, &tell_path, &builder);
      builder.add_block(events->digest(announced[i].head));
      goes_on = i + 1 < n && announced[i + 1].group == g && announced[i + 1].end == announced[i].end + tokens &&
                announced[i].end % tokens == 0 && builder.bytes() <= events->most_bytes() && events->report(announced[i + 1].head);
    }
    events->push(builder.finish());
  }
  announced.clear();
}

Status Cache::enable_events(const quire_event_options& options) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (m.events != nullptr) return fail(QUIRE_ALREADY_EXISTS, "events are recorded already");
  const uint64_t cached = m.pool.counts().cached_parts;
  if (m.sequences.num_live() > 0 || cached > 0) {
    return fail(QUIRE_FAILED_PRECONDITION, "%u sequences are live and %llu parts cached: enable events first", m.sequences.num_live(),
                static_cast<unsigned long long>(cached));
  }
  std::vector<EventGroup> groups;
  for (const GroupPlan& g : m.config->groups) groups.push_back(EventGroup{g.event_kind, g.live.window, g.block_tokens});
  auto log = EventLog::create(options, std::move(groups), m.pool.num_part_slots());
  if (!log.ok()) return log.take_status();
  for (const Impl::Media& media : m.media) m.name_by_digest(media, log->get());
  m.events = std::move(*log);
  m.readable.store(m.events.get(), std::memory_order_release);
  return {};
}

void Cache::Impl::name_by_digest(const Media& item, EventLog* log) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name;
  for (uint8_t byte : item.digest) name += kDigits[byte >> 4], name += kDigits[byte & 15];
  log->names.name_media(item.first, item.length, std::move(name), 0);
}

Status Cache::name_media(quire_symbol first, std::string_view identifier, int64_t placeholder) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (m.events == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "events are not recorded");
  const auto at = std::find_if(m.media.begin(), m.media.end(), [first](const Impl::Media& item) { return item.first == first; });
  if (at == m.media.end()) return fail(QUIRE_NOT_FOUND, "first: %u is not the first symbol of a media item", first);
  m.events->names.name_media(first, at->length, std::string(identifier), placeholder);
  return {};
}

Status Cache::read_events(uint64_t from, std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const {
  const EventLog* log = impl_->readable.load(std::memory_order_acquire);
  if (log == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "events are not recorded");
  return log->read(from, out, data, batch);
}

Status Cache::snapshot_events(std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  if (m.events == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "events are not recorded");
  std::vector<Announced> all;
  for (uint32_t p = 0; p < m.pool.num_part_slots(); ++p) {
    const NodeId node = m.pool.node(PartIndex(p));
    if (node.value == kNone || m.index.is_stale(node) || !m.events->reported(PartIndex(p))) continue;
    all.push_back(Announced{m.pool.group_of(m.pool.page_of(PartIndex(p))).value, m.index.tokens(node), node, PartIndex(p)});
  }
  std::sort(all.begin(), all.end(), [](const Announced& a, const Announced& b) {
    return a.end != b.end ? a.end < b.end : a.group != b.group ? a.group < b.group : a.head < b.head;
  });
  EventBuilder builder(m.events->names);
  std::vector<NodeId> path;
  batch->next = batch->oldest = m.events->next_number();
  bool fits = true;
  for (const Announced& block : all) {
    const NodeId before = m.block_begin(block.node, block.group);
    const Digest& parent = m.events->parent(block.head);
    builder.start(m.events->group(GroupId(block.group)), GroupId(block.group), m.index.root_of(block.node),
                  parent.size > 0 ? &parent : nullptr, m.index.tokens(before));
    m.tell_symbols(block.node, block.group, &path, &builder);
    builder.add_block(m.events->digest(block.head));
    const EventRecord& record = builder.finish();
    quire_event event = record.event;
    event.number = batch->num_events;
    fits = append_event(event, record.data, out, data, batch) && fits;
  }
  if (fits) return {};
  return fail(QUIRE_OUT_OF_RANGE, "capacity is %zu and data_capacity %zu, %llu events need %llu bytes", out.size(), data.size(),
              static_cast<unsigned long long>(batch->num_events), static_cast<unsigned long long>(batch->num_bytes));
}

}  // namespace quire
