#include "tests/model/random_router.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "core/events/event_wire.h"

namespace quire::model {
namespace {

BlockHasher made(quire_hash_algorithm algorithm) {
  auto hasher = BlockHasher::create(algorithm, "router");
  MODEL_REQUIRE(hasher.ok(), hasher.status().message());
  return std::move(*hasher);
}

constexpr int64_t kPlaceholder = 1000;

std::string string_of(const Digest& digest) { return {reinterpret_cast<const char*>(digest.bytes.data()), digest.size}; }

}  // namespace

Router::Router(std::shared_ptr<const Config> config, Cache* cache, quire_hash_algorithm algorithm, uint64_t ring_bytes)
    : config_(std::move(config)), hasher_(made(algorithm)), hash_bytes_(hasher_.none().size) {
  quire_event_options options{};
  options.struct_size = sizeof options;
  options.algorithm = algorithm;
  options.seed = {"router", 6};
  options.ring_bytes = ring_bytes;
  require_ok(cache->enable_events(options), "enable_events");
  bool needs_some = false;
  uint64_t blocks = 1;
  for (const GroupPlan& g : config_->groups) {
    can_tell_ = can_tell_ && !g.live.fixed && g.look_ahead == 0;
    needs_some = needs_some || g.live.everything() || g.live.state || g.live.window > 1;
    if (!g.live.fixed) blocks = std::lcm(blocks, uint64_t{g.block_tokens});
  }
  can_tell_ = can_tell_ && needs_some && config_->hit_alignment_tokens % blocks == 0;
  events_.resize(64);
  data_.resize(64 << 10);
}

void Router::name_media(Cache* cache, quire_symbol first, uint32_t length) {
  media_.push_back({first, length, "picture " + std::to_string(first)});
  require_ok(cache->name_media(first, media_.back().name, kPlaceholder), "name_media");
}

std::string Router::text(uint64_t offset, uint64_t bytes) const {
  MODEL_REQUIRE(offset + bytes <= data_.size(), "an event points outside its data");
  return {reinterpret_cast<const char*>(data_.data()) + offset, bytes};
}

void Router::store(const quire_event& e, Known* known) {
  const uint64_t whole = config_->groups[e.group].block_tokens;
  MODEL_REQUIRE(e.block_tokens == whole || (e.num_hashes == 1 && e.block_tokens < whole), "tokens of a block");
  MODEL_REQUIRE(e.num_tokens == uint64_t{e.num_hashes} * e.block_tokens, "every hash has its tokens");
  MODEL_REQUIRE(e.parent_bytes == 0 || e.parent_bytes == hash_bytes_, "bytes of the hash before");
  std::string parent = text(e.parent_offset, e.parent_bytes);
  for (uint32_t i = 0; i < e.num_hashes; ++i) {
    std::string name = text(e.hashes_offset + uint64_t{i} * hash_bytes_, hash_bytes_);
    Block block{parent, std::vector<int64_t>(e.block_tokens)};
    const std::string bytes = text(e.tokens_offset + uint64_t{i} * e.block_tokens * 8, uint64_t{e.block_tokens} * 8);
    std::memcpy(block.tokens.data(), bytes.data(), bytes.size());
    MODEL_REQUIRE(known->emplace(std::pair(e.group, name), std::move(block)).second, "a block was stored twice");
    parent = std::move(name);
    ++stored_;
  }
}

void Router::apply(const quire_event& e, Known* known) {
  std::string wire;
  if (e.type == QUIRE_EVENT_CLEARED) {
    known->clear();
    return;
  }
  MODEL_REQUIRE(e.type == QUIRE_EVENT_STORED || e.type == QUIRE_EVENT_REMOVED, "type of an event");
  MODEL_REQUIRE(e.num_hashes > 0 && e.hash_bytes == hash_bytes_, "hashes of " + std::to_string(e.hash_bytes) + " bytes");
  MODEL_REQUIRE(e.group < config_->groups.size(), "group of an event");
  encode_event(wire_of(e, data_.data(), true), &wire);
  if (e.type == QUIRE_EVENT_STORED) return store(e, known);
  for (uint32_t i = 0; i < e.num_hashes; ++i) {
    const auto at = known->find({e.group, text(e.hashes_offset + uint64_t{i} * hash_bytes_, hash_bytes_)});
    MODEL_REQUIRE(at != known->end(), "a block of group " + std::to_string(e.group) + " was removed and never stored");
    known->erase(at);
    ++removed_;
  }
}

void Router::take_snapshot(const Cache& cache, Known* known) {
  known->clear();
  quire_event_batch batch{};
  Status status = cache.snapshot_events(events_, data_, &batch);
  if (status.code() == QUIRE_OUT_OF_RANGE) {
    events_.resize(2 * batch.num_events);
    data_.resize(2 * batch.num_bytes);
    batch = {};
    status = cache.snapshot_events(events_, data_, &batch);
  }
  require_ok(status, "snapshot_events");
  for (uint64_t i = 0; i < batch.num_events; ++i) {
    MODEL_REQUIRE(events_[i].type == QUIRE_EVENT_STORED, "a snapshot says what is there");
    apply(events_[i], known);
  }
  next_ = batch.next;
}

void Router::follow(const Cache& cache) {
  while (true) {
    quire_event_batch batch{};
    const Status status = cache.read_events(next_, events_, data_, &batch);
    if (status.code() == QUIRE_DATA_LOSS) {
      ++late_;
      return take_snapshot(cache, &known_);
    }
    if (status.code() == QUIRE_OUT_OF_RANGE) {
      data_.resize(data_.size() * 2);
      continue;
    }
    require_ok(status, "read_events");
    if (batch.num_events == 0) return;
    for (uint64_t i = 0; i < batch.num_events; ++i) {
      MODEL_REQUIRE(events_[i].number == next_ + i, "numbers of events have a gap");
      apply(events_[i], &known_);
    }
    next_ = batch.next;
  }
}

void Router::compare(const Cache& cache) {
  const uint64_t next = next_;
  Known now;
  take_snapshot(cache, &now);
  MODEL_REQUIRE(next_ == next, "something happened since");
  for (const auto& [key, block] : now) {
    const auto at = known_.find(key);
    MODEL_REQUIRE(at != known_.end(), "a block of group " + std::to_string(key.first) + " is there and nobody was told");
    MODEL_REQUIRE(at->second == block, "tokens or the parent of a block differ");
  }
  MODEL_REQUIRE(now.size() == known_.size(), "blocks that are gone and nobody was told: " + std::to_string(known_.size() - now.size()));
}

// What the name covers, put together from the rules alone: adapter, media, and in the first unit the salt, with the epoch when there is
// one.
Digest Router::hash_unit(const Digest& parent, uint32_t tenant, std::span<const quire_symbol> symbols, uint64_t begin) {
  const Tenant& t = kTenants[tenant];
  std::vector<int64_t> tokens;
  std::vector<ExtraKey> keys;
  if (t.adapter[0] != '\0') keys.push_back({ExtraKey::Kind::kText, t.adapter, 0});
  std::optional<int64_t> item;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const quire_symbol symbol = symbols[i];
    tokens.push_back(symbol >> 31 == 0 ? symbol : kPlaceholder);
    for (const Media& m : media_) {
      if (symbol < m.first || symbol - m.first >= m.length) continue;
      const int64_t offset = static_cast<int64_t>(i) - static_cast<int64_t>(symbol - m.first);
      if (item != offset) keys.push_back({ExtraKey::Kind::kMedia, m.name, offset});
      item = offset;
    }
  }
  std::string salt = t.salt;
  if (t.epoch != 0) salt += "#epoch=" + std::to_string(t.epoch);
  if (begin == 0 && !salt.empty()) keys.push_back({ExtraKey::Kind::kText, salt, 0});
  return hasher_.hash(parent.view(), tokens, keys);
}

bool Router::has(uint32_t group, uint64_t end) const {
  const uint64_t unit = config_->match_unit_tokens;
  return end / unit <= names_.size() && known_.contains({group, names_[end / unit - 1]});
}

// Whether what computing token p needs of the group is known.
bool Router::resumes(uint32_t group, uint64_t p) const {
  const LiveRange& live = config_->groups[group].live;
  const uint64_t tokens = config_->groups[group].block_tokens;
  if (live.state) return has(group, p);
  for (uint64_t end = tokens; end <= p; end += tokens) {
    const bool needed = end > live.tail_begin(p) || end - tokens < live.sink_end(p);
    if (needed && !has(group, end)) return false;
  }
  return true;
}

uint64_t Router::hit(uint32_t tenant, std::span<const quire_symbol> symbols) {
  const uint64_t unit = config_->match_unit_tokens, step = config_->hit_alignment_tokens;
  names_.clear();
  Digest digest = hasher_.none();
  for (uint64_t begin = 0; begin + unit < symbols.size(); begin += unit) {
    digest = hash_unit(digest, tenant, symbols.subspan(begin, unit), begin);
    names_.push_back(string_of(digest));
  }
  for (uint64_t p = symbols.empty() ? 0 : (symbols.size() - 1) / step * step; p > 0; p -= step) {
    bool all = true;
    for (uint32_t g = 0; g < config_->groups.size() && all; ++g) all = resumes(g, p);
    if (all) return p;
  }
  return 0;
}

bool Router::is_alike(uint32_t tenant) {
  const auto first_keys = [](const Tenant& t) {
    std::vector<std::string> keys;
    if (t.adapter[0] != '\0') keys.emplace_back(t.adapter);
    if (t.salt[0] != '\0' || t.epoch != 0) keys.push_back(t.salt + std::string(t.epoch != 0 ? "#epoch=" + std::to_string(t.epoch) : ""));
    return keys;
  };
  for (uint32_t other = 0; other < kNumTenants; ++other) {
    if (other != tenant && first_keys(kTenants[other]) == first_keys(kTenants[tenant])) return true;
  }
  return false;
}

}  // namespace quire::model
