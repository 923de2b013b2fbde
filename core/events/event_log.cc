#include "core/events/event_log.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/base/checked.h"
#include "core/events/event_wire.h"
#include "core/prefix/identity.h"

namespace quire {
namespace {

std::string text_of(quire_str text) { return text.data == nullptr ? std::string() : std::string(text.data, text.len); }

// Appends bytes at the next multiple of 8 and returns where.
uint64_t put(std::string_view bytes, std::vector<uint8_t>* data) {
  const uint64_t at = data->size();
  data->insert(data->end(), bytes.begin(), bytes.end());
  data->resize(round_up(data->size(), 8));
  return at;
}

std::string_view view_of(const Digest& digest) { return {reinterpret_cast<const char*>(digest.bytes.data()), digest.size}; }

}  // namespace

void SymbolNames::name_root(uint32_t root, const quire_identity& identity) {
  if (root >= roots_.size()) roots_.resize(root + 1);
  roots_[root] = Root{text_of(identity.adapter), outside_salt(identity), identity.adapter_number, true};
}

void SymbolNames::name_root_like(uint32_t root, uint32_t other) {
  if (root >= roots_.size()) roots_.resize(root + 1);
  roots_[root].named = false;
  if (other < roots_.size()) roots_[root] = roots_[other];
}

void SymbolNames::name_media(quire_symbol first, uint32_t length, std::string identifier, int64_t placeholder) {
  auto at = std::lower_bound(media_.begin(), media_.end(), first, [](const Media& m, quire_symbol s) { return m.first < s; });
  if (at == media_.end() || at->first != first) at = media_.insert(at, Media{});
  *at = Media{first, length, placeholder, std::move(identifier)};
}

void SymbolNames::resolve(std::span<const quire_symbol> symbols, uint64_t begin, std::vector<int64_t>* tokens,
                          std::vector<MediaItem>* items) const {
  tokens->clear();
  items->clear();
  for (size_t i = 0; i < symbols.size(); ++i) {
    const quire_symbol symbol = symbols[i];
    if (symbol < uint32_t{1} << 31) {
      tokens->push_back(symbol);
      continue;
    }
    auto above = std::upper_bound(media_.begin(), media_.end(), symbol, [](quire_symbol s, const Media& m) { return s < m.first; });
    if (above == media_.begin()) {  // given out before events were asked for
      tokens->push_back(0);
      continue;
    }
    const Media& media = *(above - 1);
    tokens->push_back(media.placeholder);
    const int64_t position = static_cast<int64_t>(begin + i) - static_cast<int64_t>(symbol - media.first);
    if (items->empty() || items->back().position != position) items->push_back({media.identifier, position, media.length});
  }
}

void EventBuilder::start(const EventGroup& group, GroupId id, uint32_t root, const Digest* parent, uint64_t first_token) {
  group_ = &group;
  root_ = root;
  position_ = first_token;
  symbols_.clear();
  hashes_.clear();
  keys_.clear();
  tokens_.clear();
  record_.data.clear();
  quire_event& e = record_.event;
  e = quire_event{};
  e.type = QUIRE_EVENT_STORED;
  e.group = id.value;
  e.block_tokens = group.block_tokens;
  e.window = group.window;
  const SymbolNames::Root& name = names_->root(root);
  e.adapter_number = name.adapter_number;
  e.adapter_bytes = static_cast<uint32_t>(name.adapter.size());
  e.adapter_offset = put(name.adapter, &record_.data);
  e.kind_bytes = static_cast<uint32_t>(group.kind.size());
  e.kind_offset = put(group.kind, &record_.data);
  if (parent == nullptr) return;
  e.parent_bytes = parent->size;
  e.parent_offset = put(view_of(*parent), &record_.data);
}

void EventBuilder::add_block(const Digest& digest) {
  quire_event& e = record_.event;
  e.hash_bytes = digest.size;
  ++e.num_hashes;
  hashes_.append(view_of(digest));
  const size_t before = tokens_.size();
  names_->resolve(symbols_, position_, &block_tokens_, &items_);
  tokens_.insert(tokens_.end(), block_tokens_.begin(), block_tokens_.end());
  const SymbolNames::Root& name = names_->root(root_);
  const KeySource source{name.adapter, name.salt, items_, {}, 0, 0};
  BlockKeys keys(source, 0, &extra_);
  encode_keys(keys.of_block(static_cast<int64_t>(position_), static_cast<int64_t>(position_ + symbols_.size())), &keys_);
  position_ += tokens_.size() - before;
  symbols_.clear();
}

const EventRecord& EventBuilder::finish() {
  quire_event& e = record_.event;
  e.hashes_offset = put(hashes_, &record_.data);
  e.num_tokens = tokens_.size();
  // A block that is found before it is complete has fewer; it is an event of its own.
  if (e.num_hashes > 0) e.block_tokens = static_cast<uint32_t>(e.num_tokens / e.num_hashes);
  e.tokens_offset = put({reinterpret_cast<const char*>(tokens_.data()), tokens_.size() * 8}, &record_.data);
  e.keys_bytes = keys_.size();
  e.keys_offset = put(keys_, &record_.data);
  return record_;
}

EventLog::EventLog(BlockHasher hasher, std::vector<EventGroup> groups, uint64_t ring_bytes)
    : hasher_(std::move(hasher)), groups_(std::move(groups)), builder_(names), ring_(ring_bytes) {}

Result<std::unique_ptr<EventLog>> EventLog::create(const quire_event_options& options, std::vector<EventGroup> groups,
                                                   uint64_t part_slots) {
  auto hasher = BlockHasher::create(options.algorithm, text_of(options.seed));
  if (!hasher.ok()) return hasher.take_status();
  uint64_t largest = 0;
  for (const EventGroup& g : groups) largest = std::max<uint64_t>(largest, g.block_tokens);
  auto bytes = EventRing::size_of(options.ring_bytes, largest, "options.ring_bytes");
  if (!bytes.ok()) return bytes.take_status();
  std::unique_ptr<EventLog> log(new EventLog(std::move(*hasher), std::move(groups), *bytes));
  log->blocks_.resize(part_slots);
  log->buckets_.assign(std::bit_ceil(part_slots + 1), kNone);
  return log;
}

Digest EventLog::hash_unit(const Digest& parent, std::span<const quire_symbol> symbols, uint32_t root, uint64_t begin) {
  names.resolve(symbols, begin, &tokens_, &items_);
  const SymbolNames::Root& name = names.root(root);
  const KeySource source{name.adapter, name.salt, items_, {}, 0, 0};
  BlockKeys keys(source, 0, &extra_);
  return hasher_.hash(parent.view(), tokens_, keys.of_block(static_cast<int64_t>(begin), static_cast<int64_t>(begin + symbols.size())));
}

uint32_t* EventLog::bucket_of(const Digest& digest) { return &buckets_[digest.external_int() & (buckets_.size() - 1)]; }

// Another block that can be found and has the same name in the same group; reported: only one that is. kNone: there is none.
uint32_t EventLog::alike(const Block& block, uint32_t head, bool reported) {
  for (uint32_t other = *bucket_of(block.digest); other != kNone; other = blocks_[other].next) {
    const Block& b = blocks_[other];
    if (other == head || b.era != era_ || b.group != block.group || (reported && !b.reported)) continue;
    if (std::ranges::equal(b.digest.view(), block.digest.view())) return other;
  }
  return kNone;
}

void EventLog::enter(GroupId group, PartIndex head, const Digest& digest, const Digest& parent, uint32_t queued) {
  if (digest.size == 0) return;
  uint32_t* bucket = bucket_of(digest);
  blocks_[head.value] = Block{digest, parent, group.value, *bucket, queued, false, era_};
  *bucket = head.value;
}

bool EventLog::report(PartIndex head) {
  Block& block = blocks_[head.value];
  block.queued = kNone;
  if (block.reported || alike(block, head.value, true) != kNone) return false;
  block.reported = true;
  return true;
}

void EventLog::leave(PartIndex head) {
  const Block block = blocks_[head.value];
  if (block.digest.size == 0) return;  // it has no name
  uint32_t* link = bucket_of(block.digest);
  while (*link != head.value) link = &blocks_[*link].next;
  *link = block.next;
  blocks_[head.value] = Block{};
  if (!block.reported || block.era != era_) return;
  const uint32_t heir = alike(block, head.value, false);
  if (heir != kNone) {
    blocks_[heir].reported = true;
  } else {
    removed(block.group, block.digest);
  }
}

void EventLog::removed(uint32_t group, const Digest& digest) {
  record_.data.clear();
  record_.event = quire_event{};
  record_.event.type = QUIRE_EVENT_REMOVED;
  record_.event.group = group;
  record_.event.num_hashes = 1;
  record_.event.hash_bytes = digest.size;
  record_.event.block_tokens = groups_[group].block_tokens;
  record_.event.hashes_offset = put(view_of(digest), &record_.data);
  ring_.push(record_);
}

void EventLog::cleared() {
  ++era_;
  record_.data.clear();
  record_.event = quire_event{};
  record_.event.type = QUIRE_EVENT_CLEARED;
  ring_.push(record_);
}

}  // namespace quire
