// Events on the wire: batches as bytes, what a publisher sends and replays, endpoints, what several workers agree on.
#include <deque>

#include "core/events/event_wire.h"
#include "tests/golden/golden.h"

namespace quire::golden {
namespace {

std::string differs(const std::string& name, const std::string& expected, const std::string& is) {
  return expected == is ? std::string() : name + ": expected " + expected + ", is " + is;
}

std::string hex_of(const std::string& bytes) { return golden::hex_of({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}); }

std::string text_of_hex(const std::string& hex) {
  const auto bytes = bytes_of(hex);
  return {bytes.begin(), bytes.end()};
}

// An event of a file, and the memory behind it.
struct Read {
  std::deque<std::string> text;
  std::vector<int64_t> tokens;
  WireEvent event;

  std::string_view keep(const json& value) {
    if (value.is_null()) return {};
    text.push_back(value);
    return text.back();
  }
};

std::string digest_of(const json& hash, bool* whole) {
  *whole = hash.is_object();
  if (*whole) return text_of_hex(hash.at("bytes"));
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(hash.get<uint64_t>() >> shift);
  return bytes;
}

std::string keys_of(const json& blocks) {
  std::string out;
  for (const json& block : blocks) {
    std::deque<std::string> text;
    std::vector<ExtraKey> keys;
    for (const json& key : block.is_null() ? json::array() : block) {
      text.push_back(key.is_string() ? key.get<std::string>() : key.is_array() ? key[0].get<std::string>() : text_of_hex(key.at("bytes")));
      const auto kind = key.is_string() ? ExtraKey::Kind::kText : key.is_array() ? ExtraKey::Kind::kMedia : ExtraKey::Kind::kBytes;
      keys.push_back({kind, text.back(), key.is_array() ? key[1].get<int64_t>() : 0});
    }
    encode_keys(keys, &out);
  }
  return out;
}

void read_event(const json& from, Read* to) {
  const std::string type = from.at("type");
  WireEvent& e = to->event;
  if (type == "AllBlocksCleared") return;
  e.type = type == "BlockStored" ? QUIRE_EVENT_STORED : QUIRE_EVENT_REMOVED;
  bool whole = false;
  for (const json& hash : from.at("block_hashes")) {
    to->text.push_back(digest_of(hash, &whole));
    e.hashes.push_back(to->text.back());
  }
  e.whole_hashes = whole;
  e.medium = to->keep(from.at("medium"));
  if (!from.at("group_idx").is_null()) e.group = from.at("group_idx").get<uint32_t>();
  e.locality = to->keep(from.at("locality"));
  if (e.type == QUIRE_EVENT_REMOVED) return;
  if (!from.at("parent_block_hash").is_null()) {
    to->text.push_back(digest_of(from.at("parent_block_hash"), &whole));
    e.parent = to->text.back();
    e.whole_hashes = whole;
  }
  to->tokens = from.at("token_ids").get<std::vector<int64_t>>();
  e.tokens = to->tokens;
  e.block_tokens = from.at("block_size");
  if (!from.at("lora_id").is_null()) e.adapter_number = from.at("lora_id").get<uint64_t>();
  e.adapter = to->keep(from.at("lora_name"));
  if (!from.at("extra_keys").is_null()) {
    e.num_keys = from.at("extra_keys").size();
    to->text.push_back(keys_of(from.at("extra_keys")));
    e.keys = to->text.back();
  }
  e.kind = to->keep(from.at("kv_cache_spec_kind"));
  if (!from.at("kv_cache_spec_sliding_window").is_null()) e.window = from.at("kv_cache_spec_sliding_window").get<uint64_t>();
}

std::string encode(const json& list, double time, const json& rank) {
  std::deque<Read> read(list.size());
  std::vector<WireEvent> events;
  for (size_t i = 0; i < list.size(); ++i) {
    read_event(list[i], &read[i]);
    events.push_back(read[i].event);
  }
  std::string out;
  encode_batch(time, events, rank.is_null() ? std::nullopt : std::optional<uint64_t>(rank.get<uint64_t>()), &out);
  return out;
}

Outcome check_encode(const json& test) {
  const std::string bytes = encode(test.at("events"), test.at("ts"), test.at("data_parallel_rank"));
  std::string difference = differs("bytes", test.at("msgpack_hex"), hex_of(bytes));
  if (!difference.empty()) return {difference, {}};
  // The order of keys, read back by another implementation.
  const auto batch = nlohmann::ordered_json::from_msgpack(bytes.begin(), bytes.end(), true, true);
  std::vector<std::vector<std::string>> orders;
  for (const auto& event : batch.at(1)) {
    std::vector<std::string> order;
    for (const auto& [key, value] : event.items()) order.push_back(key);
    if (std::find(orders.begin(), orders.end(), order) == orders.end()) orders.push_back(order);
  }
  for (const json& order : test.at("map_keys")) {
    if (std::find(orders.begin(), orders.end(), order.get<std::vector<std::string>>()) == orders.end()) {
      return {"map_keys: no event has " + order.dump(), {}};
    }
  }
  return {};
}

// The frames around the payloads, replays and endpoints are those of plugins/zmq: tests/zmq/golden_test.cc.
Outcome check_publish(const json& test) {
  const json& sent = test.at("sub_frames");
  for (size_t i = 0; i < sent.size(); ++i) {
    const json& batch = test.at("batches").at(i);
    const json& before = batch.at("data_parallel_rank_before_publish");
    const json& rank = before.is_null() ? test.at("data_parallel_rank") : before;
    const std::string difference = differs("payload", sent[i].at(2), hex_of(encode(batch.at("events"), batch.at("ts"), rank)));
    if (!difference.empty()) return {difference, {}};
  }
  return {};
}

std::vector<std::string> encoded(const json& list) {
  std::vector<std::string> out;
  for (const json& item : list) {
    Read read;
    read_event(item, &read);
    encode_event(read.event, &out.emplace_back());
  }
  return out;
}

Outcome check_aggregate(const json& test) {
  std::vector<std::vector<std::string>> workers;
  for (const json& worker : test.at("events_per_worker")) workers.push_back(encoded(worker));
  const auto common = events_of_all(workers);
  return {common == encoded(test.at("common")) ? "" : "common: " + std::to_string(common.size()) + " events", {}};
}

// Field order: an event with every field set shows all of them.
Outcome check_defaults(const json& test) {
  WireEvent full;
  full.type = QUIRE_EVENT_STORED;
  full.num_keys = 1;
  full.keys = "\xc0";
  full.group = 1;
  full.window = 1;
  full.kind = full.locality = "x";
  for (const auto type : {QUIRE_EVENT_STORED, QUIRE_EVENT_REMOVED, QUIRE_EVENT_CLEARED}) {
    full.type = type;
    std::string bytes;
    encode_event(full, &bytes);
    const auto event = nlohmann::ordered_json::from_msgpack(bytes.begin(), bytes.end());
    std::vector<std::string> order;
    for (const auto& [key, value] : event.items()) order.push_back(key);
    order.erase(order.begin());
    const json& expect = test.at("field_order").at(event.at("type").get<std::string>());
    const std::string difference = differs("field_order", expect.dump(), json(order).dump());
    if (!difference.empty()) return {difference, {}};
  }
  return {};
}

}  // namespace

Outcome check_event(const json& test) {
  const std::string kind = test.at("kind");
  if (kind == "encode") return check_encode(test);
  if (kind == "publish") return check_publish(test);
  if (kind == "endpoint_offset") return {{}, "zmq_golden compares endpoints"};
  if (kind == "aggregate") return check_aggregate(test);
  if (kind == "defaults") return check_defaults(test);
  if (kind == "flow") return check_flow(test);
  return {"kind " + kind + " is unknown", {}};
}

}  // namespace quire::golden
