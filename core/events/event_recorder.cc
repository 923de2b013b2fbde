#include "core/events/event_recorder.h"

#include <algorithm>

namespace quire {

Result<std::unique_ptr<EventLog>> EventRecorder::make_log(const quire_event_options& options, std::span<const std::string> kinds) const {
  std::vector<EventGroup> groups;
  for (const GroupPlan& g : config_.groups) {
    const std::string kind = kinds.empty() ? std::string() : kinds[groups.size()];
    groups.push_back(EventGroup{kind, g.live.window, g.block_tokens});
  }
  return EventLog::create(options, std::move(groups), pool_.num_part_slots());
}

void EventRecorder::start(std::unique_ptr<EventLog> log) {
  log_ = std::move(log);
  readable_.store(log_.get(), std::memory_order_release);
}

void EventRecorder::name_root_like(uint32_t root, uint32_t other) {
  record([&] { log_->names.name_root_like(root, other); });
}

void EventRecorder::published(uint32_t root, NodeId node, uint32_t group, PartIndex head) {
  record([&] {
    const NodeId before = block_begin(node, group);
    const Digest parent = index_.tokens(before) > 0 ? digest_of(before, root) : Digest{};
    const Digest digest = digest_of(node, root);
    announced_.push_back(Announced{group, index_.tokens(node), node, head});
    log_->enter(GroupId(group), head, digest, parent, static_cast<uint32_t>(announced_.size() - 1));
  });
}

void EventRecorder::forgotten(PartIndex head) {
  record([&] { log_->leave(head); });
}

// There was no memory to record something: readers take a snapshot, which has what still waits.
void EventRecorder::lose_events() {
  for (const Announced& a : announced_) {
    if (log_->waits(a.head)) log_->report(a.head);
  }
  announced_.clear();
  log_->ring().lose();
}

// Mostly one hash: some group has a block where the parent ends.
Digest EventRecorder::digest_of(NodeId node, uint32_t root) {
  hash_path_.clear();
  const Digest* known = &log_->none();
  for (NodeId n = node; index_.tokens(n) > 0; n = index_.parent(n)) {
    bool found = false;
    for (uint32_t g = 0; g < config_.groups.size() && !found; ++g) {
      const PartIndex head = index_.block_at(n, GroupId(g));
      if (head.value == kNone || log_->digest(head).size == 0) continue;
      known = &log_->digest(head);
      found = true;
    }
    if (found) break;
    hash_path_.push_back(n);
  }
  Digest digest = *known;
  for (size_t i = hash_path_.size(); i > 0; --i) {
    const NodeId n = hash_path_[i - 1];
    digest = log_->hash_unit(digest, index_.symbols(n), root, index_.tokens(n) - config_.match_unit_tokens);
  }
  return digest;
}

// A tail is published with a part of its tokens.
NodeId EventRecorder::block_begin(NodeId node, uint32_t group) const {
  const uint64_t begin = (index_.tokens(node) - 1) / config_.groups[group].block_tokens * config_.groups[group].block_tokens;
  while (index_.tokens(node) > begin) node = index_.parent(node);
  return node;
}

// The symbols of the block that ends at a node.
void EventRecorder::add_symbols(NodeId node, uint32_t group, std::vector<NodeId>* path, EventBuilder* builder) const {
  path->clear();
  const uint64_t begin = (index_.tokens(node) - 1) / config_.groups[group].block_tokens * config_.groups[group].block_tokens;
  for (NodeId n = node; index_.tokens(n) > begin; n = index_.parent(n)) path->push_back(n);
  for (size_t i = path->size(); i > 0; --i) builder->add_symbols(index_.symbols((*path)[i - 1]));
}

// One event per group and run of blocks that follow one another. What was forgotten since it was published is left out: its
// node may be gone, and no reader knows of it.
void EventRecorder::report_announced(uint32_t root) {
  size_t n = 0;
  for (size_t i = 0; i < announced_.size(); ++i) {
    if (log_->waits(announced_[i].head, static_cast<uint32_t>(i))) announced_[n++] = announced_[i];
  }
  announced_.resize(n);
  std::sort(announced_.begin(), announced_.end(),
            [](const Announced& a, const Announced& b) { return a.group != b.group ? a.group < b.group : a.end < b.end; });
  EventBuilder& builder = log_->builder();
  for (size_t i = 0; i < n;) {
    const Announced& first = announced_[i];
    if (!log_->report(first.head)) {
      ++i;
      continue;
    }
    const NodeId before = block_begin(first.node, first.group);
    const Digest& parent = log_->parent(first.head);
    builder.start(log_->group(GroupId(first.group)), GroupId(first.group), root, parent.size > 0 ? &parent : nullptr,
                  index_.tokens(before));
    const uint32_t g = first.group;
    const uint64_t tokens = config_.groups[g].block_tokens;
    for (bool goes_on = true; goes_on; ++i) {
      add_symbols(announced_[i].node, g, &symbol_path_, &builder);
      builder.add_block(log_->digest(announced_[i].head));
      goes_on = i + 1 < n && announced_[i + 1].group == g && announced_[i + 1].end == announced_[i].end + tokens &&
                announced_[i].end % tokens == 0 && builder.bytes() <= log_->ring().most_bytes() && log_->report(announced_[i + 1].head);
    }
    log_->ring().push(builder.finish());
  }
  announced_.clear();
}

void EventRecorder::report(uint32_t root) {
  record([&] { report_announced(root); });
}

Status EventRecorder::read(uint64_t from, std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const {
  const EventLog* log = readable_.load(std::memory_order_acquire);
  if (log == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "events are not recorded");
  return log->ring().read(from, out, data, batch);
}

Status EventRecorder::snapshot(std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const {
  if (log_ == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "events are not recorded");
  std::vector<Announced> all;
  for (uint32_t p = 0; p < pool_.num_part_slots(); ++p) {
    const NodeId node = pool_.node(PartIndex(p));
    if (node.value == kNone || index_.is_stale(node) || !log_->reported(PartIndex(p))) continue;
    all.push_back(Announced{pool_.group_of(pool_.page_of(PartIndex(p))).value, index_.tokens(node), node, PartIndex(p)});
  }
  std::sort(all.begin(), all.end(), [](const Announced& a, const Announced& b) {
    return a.end != b.end ? a.end < b.end : a.group != b.group ? a.group < b.group : a.head < b.head;
  });
  EventBuilder builder(log_->names);
  std::vector<NodeId> path;
  batch->next = batch->oldest = log_->ring().next_number();
  bool fits = true;
  for (const Announced& block : all) {
    const NodeId before = block_begin(block.node, block.group);
    const Digest& parent = log_->parent(block.head);
    builder.start(log_->group(GroupId(block.group)), GroupId(block.group), index_.root_of(block.node), parent.size > 0 ? &parent : nullptr,
                  index_.tokens(before));
    add_symbols(block.node, block.group, &path, &builder);
    builder.add_block(log_->digest(block.head));
    const EventRecord& record = builder.finish();
    quire_event event = record.event;
    event.number = batch->num_events;
    fits = append_event(event, record.data, out, data, batch) && fits;
  }
  if (fits) return {};
  return fail(QUIRE_OUT_OF_RANGE, "capacity is %zu and data_capacity %zu, %llu events need %llu bytes", out.size(), data.size(),
              static_cast<unsigned long long>(batch->num_events), static_cast<unsigned long long>(batch->num_bytes));
}

void EventRecorder::describe(uint32_t group, std::span<const PartIndex> heads, uint64_t most_bytes, std::vector<EventRecord>* out) const {
  const auto node_of = [&](PartIndex head) {
    const NodeId node = head.value == kNone ? NodeId(kNone) : pool_.node(head);
    return node.value == kNone || index_.is_stale(node) || log_->digest(head).size == 0 ? NodeId(kNone) : node;
  };
  const uint64_t tokens = config_.groups[group].block_tokens;
  EventBuilder builder(log_->names);
  std::vector<NodeId> path;
  for (size_t i = 0; i < heads.size();) {
    NodeId node = node_of(heads[i]);
    if (node.value == kNone) {
      ++i;
      continue;
    }
    const Digest& parent = log_->parent(heads[i]);
    builder.start(log_->group(GroupId(group)), GroupId(group), index_.root_of(node), parent.size > 0 ? &parent : nullptr,
                  index_.tokens(block_begin(node, group)));
    for (bool goes_on = true; goes_on;) {
      const uint64_t end = index_.tokens(node);
      add_symbols(node, group, &path, &builder);
      builder.add_block(log_->digest(heads[i]));
      node = ++i < heads.size() ? node_of(heads[i]) : NodeId(kNone);
      goes_on = node.value != kNone && end % tokens == 0 && index_.tokens(node) == end + tokens && builder.bytes() <= most_bytes;
    }
    out->push_back(builder.finish());
  }
}

}  // namespace quire
