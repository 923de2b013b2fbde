#include "core/events/event_wire.h"

#include <algorithm>
#include <bit>
#include <map>

#include "core/events/event_kind.h"

namespace quire {
namespace {

class MsgPack {
 public:
  explicit MsgPack(std::string* out) : out_(out) {}
  void nil() { put(0xc0); }
  void number(uint64_t value) {
    if (value < 0x80) {
      put(static_cast<uint8_t>(value));
    } else {
      sized({0xcc, 0xcd, 0xce, 0xcf}, value);
    }
  }
  void integer(int64_t value) {
    if (value >= 0) {
      number(static_cast<uint64_t>(value));
    } else if (value >= -32) {
      put(static_cast<uint8_t>(value));
    } else {
      const unsigned width = value >= INT8_MIN ? 0 : value >= INT16_MIN ? 1 : value >= INT32_MIN ? 2 : 3;
      put(static_cast<uint8_t>(0xd0 + width)), big(static_cast<uint64_t>(value), 1U << width);
    }
  }
  void real(double value) { put(0xcb), big(std::bit_cast<uint64_t>(value), 8); }
  void text(std::string_view value) {
    if (value.size() < 32) {
      put(static_cast<uint8_t>(0xa0 | value.size()));
    } else {
      sized({0xd9, 0xda, 0xdb, 0}, value.size());
    }
    out_->append(value);
  }
  void bytes(std::string_view value) { sized({0xc4, 0xc5, 0xc6, 0}, value.size()), out_->append(value); }
  void array(uint64_t size) {
    if (size < 16) {
      put(static_cast<uint8_t>(0x90 | size));
    } else {
      const bool wide = size > 0xffff;
      put(wide ? 0xdd : 0xdc), big(size, wide ? 4 : 2);
    }
  }
  void map(uint64_t size) { put(static_cast<uint8_t>(0x80 | size)); }  // below 16 here
  void encoded(std::string_view value) { out_->append(value); }

 private:
  struct Heads {
    uint8_t one, two, four, eight;
  };
  void sized(Heads heads, uint64_t value) {
    if (value <= 0xff) {
      put(heads.one), big(value, 1);
    } else if (value <= 0xffff) {
      put(heads.two), big(value, 2);
    } else if (value <= 0xffffffff) {
      put(heads.four), big(value, 4);
    } else {
      put(heads.eight), big(value, 8);
    }
  }
  void put(uint8_t byte) { out_->push_back(static_cast<char>(byte)); }
  void big(uint64_t value, unsigned width) {
    for (unsigned i = width; i > 0; --i) put(static_cast<uint8_t>(value >> (8 * (i - 1))));
  }
  std::string* out_;
};

void put_hash(std::string_view digest, bool whole, MsgPack* pack) {
  if (whole) {
    pack->bytes(digest);
    return;
  }
  uint64_t value = 0;
  for (char c : digest.substr(digest.size() < 8 ? 0 : digest.size() - 8)) value = value << 8 | static_cast<unsigned char>(c);
  pack->number(value);
}

void put_hashes(const WireEvent& event, MsgPack* pack) {
  pack->text("block_hashes");
  pack->array(event.hashes.size());
  for (std::string_view digest : event.hashes) put_hash(digest, event.whole_hashes, pack);
}

void put_text(std::string_view name, std::string_view value, MsgPack* pack) {
  pack->text(name);
  value.empty() ? pack->nil() : pack->text(value);
}

// Fields that are left out when they have their default.
void put_optional(const WireEvent& event, MsgPack* pack) {
  if (event.group) pack->text("group_idx"), pack->number(*event.group);
  if (event.type == QUIRE_EVENT_STORED) {
    if (!event.kind.empty()) put_text("kv_cache_spec_kind", event.kind, pack);
    if (event.window) pack->text(kEventWindowField), pack->number(*event.window);
  }
  if (!event.locality.empty()) put_text("locality", event.locality, pack);
}

void put_stored(const WireEvent& event, MsgPack* pack) {
  const bool keys = event.num_keys > 0;
  pack->map(8 + (keys ? 1 : 0) + (event.group ? 1 : 0) + (event.kind.empty() ? 0 : 1) + (event.window ? 1 : 0) +
            (event.locality.empty() ? 0 : 1));
  pack->text("type"), pack->text("BlockStored");
  put_hashes(event, pack);
  pack->text("parent_block_hash");
  event.parent.empty() ? pack->nil() : put_hash(event.parent, event.whole_hashes, pack);
  pack->text("token_ids");
  pack->array(event.tokens.size());
  for (int64_t token : event.tokens) pack->integer(token);
  pack->text("block_size"), pack->number(event.block_tokens);
  pack->text("lora_id");
  event.adapter_number ? pack->number(*event.adapter_number) : pack->nil();
  put_text("medium", event.medium, pack);
  put_text("lora_name", event.adapter, pack);
  if (keys) pack->text("extra_keys"), pack->array(event.num_keys), pack->encoded(event.keys);
  put_optional(event, pack);
}

void put_removed(const WireEvent& event, MsgPack* pack) {
  pack->map(3 + (event.group ? 1 : 0) + (event.locality.empty() ? 0 : 1));
  pack->text("type"), pack->text("BlockRemoved");
  put_hashes(event, pack);
  put_text("medium", event.medium, pack);
  put_optional(event, pack);
}

}  // namespace

void encode_keys(std::span<const ExtraKey> keys, std::string* out) {
  MsgPack pack(out);
  if (keys.empty()) {
    pack.nil();
    return;
  }
  pack.array(keys.size());
  for (const ExtraKey& key : keys) {
    switch (key.kind) {
      case ExtraKey::Kind::kText:
        pack.text(key.value);
        break;
      case ExtraKey::Kind::kBytes:
        pack.bytes(key.value);
        break;
      case ExtraKey::Kind::kMedia:
        pack.array(2), pack.text(key.value), pack.integer(key.offset);
        break;
    }
  }
}

WireEvent wire_of(const quire_event& e, const uint8_t* data, bool whole_hashes) {
  const auto text = [data](uint64_t offset, uint64_t bytes) {
    return std::string_view(reinterpret_cast<const char*>(data) + offset, bytes);
  };
  WireEvent out;
  out.type = e.type;
  if (e.type == QUIRE_EVENT_CLEARED) return out;
  out.whole_hashes = whole_hashes;
  for (uint32_t i = 0; i < e.num_hashes; ++i) out.hashes.push_back(text(e.hashes_offset + uint64_t{i} * e.hash_bytes, e.hash_bytes));
  out.group = e.group;
  if (e.type == QUIRE_EVENT_REMOVED) return out;
  out.parent = text(e.parent_offset, e.parent_bytes);
  out.tokens = {reinterpret_cast<const int64_t*>(data + e.tokens_offset), e.num_tokens};
  out.block_tokens = e.block_tokens;
  if (e.adapter_number != 0) out.adapter_number = e.adapter_number;
  out.adapter = text(e.adapter_offset, e.adapter_bytes);
  out.num_keys = e.num_hashes;
  out.keys = text(e.keys_offset, e.keys_bytes);
  out.kind = text(e.kind_offset, e.kind_bytes);
  if (e.window != 0) out.window = e.window;
  return out;
}

void encode_event(const WireEvent& event, std::string* out) {
  MsgPack pack(out);
  if (event.type == QUIRE_EVENT_STORED) {
    put_stored(event, &pack);
  } else if (event.type == QUIRE_EVENT_REMOVED) {
    put_removed(event, &pack);
  } else {
    pack.map(1), pack.text("type"), pack.text("AllBlocksCleared");
  }
}

void encode_batch(double time, std::span<const WireEvent> events, std::optional<uint64_t> rank, std::string* out) {
  MsgPack pack(out);
  pack.array(3);
  pack.real(time);
  pack.array(events.size());
  for (const WireEvent& event : events) encode_event(event, out);
  rank ? pack.number(*rank) : pack.nil();
}

std::vector<std::string> events_of_all(std::span<const std::vector<std::string>> encoded_by_worker) {
  std::map<std::string_view, size_t> reports;
  for (const auto& worker : encoded_by_worker) {
    for (const std::string& event : worker) ++reports[event];
  }
  std::vector<std::string> common;
  for (const auto& worker : encoded_by_worker) {
    for (const std::string& event : worker) {
      size_t& count = reports[event];
      if (count >= encoded_by_worker.size()) common.push_back(event);
      count = 0;
    }
  }
  return common;
}

}  // namespace quire
