// quire/events.h, and the events of quire/tier.h
#include <quire/events.h>

#include <cinttypes>
#include <cmath>
#include <optional>
#include <string>

#include "core/base/checked.h"
#include "core/base/utf8.h"
#include "core/c_api/handles.h"
#include "core/events/block_hash.h"
#include "core/events/event_wire.h"
#include "core/prefix/identity.h"

namespace c_api = quire::c_api;
using quire::Status;

namespace {

constexpr uint64_t kMaxText = 4096;
constexpr uint64_t kMaxSalt = kMaxText + quire::kMostEpochBytes;  // as the events of a cache name it
constexpr uint64_t kMaxLabel = 255;                               // medium, locality
constexpr uint64_t kMaxIdentifiers = uint64_t{1} << 30;

Status read_media(const quire_hash_options& options, std::vector<quire::MediaItem>* items) {
  QUIRE_RETURN_IF_ERROR(c_api::check_array(options.media, options.num_media, "options.media"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(options.identifiers, "options.identifiers", kMaxIdentifiers));
  const std::string_view text = c_api::text_of(options.identifiers);
  items->reserve(options.num_media);
  uint64_t end = 0;
  for (uint64_t i = 0; i < options.num_media; ++i) {
    const quire_hash_media& m = options.media[i];
    const auto next = quire::checked_add(m.position, m.length);
    if (m.length == 0 || !next) return quire::invalid("options.media[%" PRIu64 "].length is %" PRIu64, i, m.length);
    if (m.position < end) {
      return quire::invalid("options.media[%" PRIu64 "].position is %" PRIu64 ", the item before ends at %" PRIu64, i, m.position, end);
    }
    if (m.identifier_offset > text.size() || m.identifier_bytes > text.size() - m.identifier_offset) {
      return quire::invalid("options.media[%" PRIu64 "]: identifier outside the %zu bytes of options.identifiers", i, text.size());
    }
    items->push_back(
        {text.substr(m.identifier_offset, m.identifier_bytes), static_cast<int64_t>(m.position), static_cast<int64_t>(m.length)});
    end = *next;
  }
  return {};
}

Status check_options(const quire_hash_options& options) {
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(options.flags, QUIRE_HASH_LAST_MEDIA_ONLY, "options.flags"));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(options.seed, "options.seed", kMaxText));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(options.adapter, "options.adapter", kMaxText));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(options.salt, "options.salt", kMaxSalt));
  if (options.block_tokens == 0) return quire::invalid("options.block_tokens is 0");
  if (options.first_token % options.block_tokens != 0) {
    return quire::invalid("options.first_token is %" PRIu64 ", not a multiple of block_tokens %u", options.first_token,
                          options.block_tokens);
  }
  if ((options.first_token != 0) != (options.parent != nullptr)) {
    return quire::invalid("options.parent is %s and first_token is %" PRIu64, options.parent == nullptr ? "NULL" : "given",
                          options.first_token);
  }
  if (options.embeds == nullptr && (options.embed_rows != 0 || options.embed_row_bytes != 0)) {
    return quire::invalid("options.embeds is NULL and embed_rows is %" PRIu64, options.embed_rows);
  }
  if (options.embeds != nullptr && (options.embed_row_bytes == 0 || !quire::checked_mul(options.embed_rows, options.embed_row_bytes))) {
    return quire::invalid("options.embed_row_bytes is %" PRIu64 " with %" PRIu64 " rows", options.embed_row_bytes, options.embed_rows);
  }
  return {};
}

Status hash_blocks(const quire_hash_options& options, std::span<const int64_t> tokens, uint8_t* digests, uint64_t count) {
  std::vector<quire::MediaItem> media;
  QUIRE_RETURN_IF_ERROR(read_media(options, &media));
  quire::KeySource source{c_api::text_of(options.adapter), c_api::text_of(options.salt), media, {}, 0, 0};
  if (options.embeds != nullptr) {
    if (!quire::BlockHasher::has_sha256()) {
      return quire::fail(QUIRE_UNIMPLEMENTED, "options.embeds: this library was built without libcrypto (SHA-256)");
    }
    source.embeds = {static_cast<const char*>(options.embeds), options.embed_rows * options.embed_row_bytes};
    source.embed_rows = options.embed_rows;
    source.embed_row_bytes = options.embed_row_bytes;
  }
  auto hasher = quire::BlockHasher::create(options.algorithm, c_api::text_of(options.seed));
  if (!hasher.ok()) return hasher.take_status();
  const bool last_only = (options.flags & QUIRE_HASH_LAST_MEDIA_ONLY) != 0 && !media.empty();
  quire::BlockKeys keys(source, last_only ? media.size() - 1 : 0);
  quire::Digest parent = hasher->none();
  if (options.parent != nullptr) std::copy_n(options.parent, parent.size, parent.bytes.begin());
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = static_cast<int64_t>(options.first_token + i * options.block_tokens);
    const auto extra = keys.of_block(begin, begin + options.block_tokens);
    parent = hasher->hash(parent.view(), tokens.subspan(i * options.block_tokens, options.block_tokens), extra);
    std::copy_n(parent.bytes.begin(), parent.size, digests + i * parent.size);
  }
  return {};
}

}  // namespace

uint32_t quire_hash_bytes(quire_hash_algorithm algorithm) {
  switch (algorithm) {
    case QUIRE_HASH_SHA256_CBOR:
    case QUIRE_HASH_SHA256_PICKLE:
      return 32;
    case QUIRE_HASH_XXHASH_CBOR:
    case QUIRE_HASH_XXHASH_PICKLE:
      return 16;
    default:
      return 0;
  }
}

quire_code quire_hash_blocks(const quire_hash_options* options, const int64_t* tokens, uint64_t num_tokens, uint8_t* digests,
                             uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    quire_hash_options own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
    QUIRE_RETURN_IF_ERROR(check_options(own));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(tokens, num_tokens, "tokens"));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(digests, capacity, count));
    const uint64_t total = num_tokens / own.block_tokens;
    const uint64_t wanted = digests == nullptr ? 0 : std::min(total, capacity);
    QUIRE_RETURN_IF_ERROR(hash_blocks(own, {tokens, num_tokens}, digests, wanted));
    *count = total;
    return c_api::finish_two_call(total, digests != nullptr, capacity);
  });
}

quire_code quire_cache_enable_events(quire_cache* cache, const quire_event_options* options, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(cache, "cache"));
    quire_event_options own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(options, &own, "options"));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(own.seed, "options.seed", kMaxText));
    return cache->object->enable_events(own, cache->event_kinds);
  });
}

quire_code quire_cache_name_media(quire_cache* cache, quire_symbol first, quire_str identifier, int64_t placeholder, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(cache, "cache"));
    QUIRE_RETURN_IF_ERROR(c_api::check_text(identifier, "identifier", kMaxText));
    return cache->object->name_media(first, c_api::text_of(identifier), placeholder);
  });
}

namespace {

// What reading and snapshot share. The batch is written also when the arrays are too small.
template <typename Handle, typename Read>
quire_code read_events(Handle* handle, const char* name, quire_event* events, uint64_t capacity, uint8_t* data, uint64_t data_capacity,
                       quire_event_batch* batch, quire_error* err, Read&& read) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_handle(handle, name));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(events, capacity, "events"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(data, data_capacity, "data"));
    QUIRE_RETURN_IF_ERROR(c_api::check_info(batch, "batch"));
    if (reinterpret_cast<uintptr_t>(data) % 8 != 0) return quire::invalid("data is not aligned to 8 bytes");
    quire_event_batch own{};
    own.struct_size = sizeof own;
    Status status = read(*handle->object, std::span<quire_event>(events, capacity), std::span<uint8_t>(data, data_capacity), &own);
    if (status.ok() || status.code() == QUIRE_OUT_OF_RANGE || status.code() == QUIRE_DATA_LOSS) c_api::write_info(batch, own);
    return status;
  });
}

// Whether an event points into its data only.
Status check_event(const quire_event& e, uint64_t i, uint64_t data_bytes) {
  if (e.type < QUIRE_EVENT_STORED || e.type > QUIRE_EVENT_CLEARED) return quire::invalid("events[%" PRIu64 "].type is %d", i, e.type);
  if (e.type == QUIRE_EVENT_CLEARED) return {};
  if (e.hash_bytes == 0 && e.num_hashes != 0) return quire::invalid("events[%" PRIu64 "].hash_bytes is 0", i);
  const auto hashes = quire::checked_mul(e.num_hashes, e.hash_bytes);
  const auto tokens = quire::checked_mul(e.num_tokens, 8);
  const auto inside = [data_bytes](uint64_t offset, std::optional<uint64_t> bytes) {
    return bytes && *bytes <= data_bytes && offset <= data_bytes - *bytes;
  };
  if (!inside(e.hashes_offset, hashes) || !inside(e.tokens_offset, tokens) || !inside(e.parent_offset, e.parent_bytes) ||
      !inside(e.keys_offset, e.keys_bytes) || !inside(e.adapter_offset, e.adapter_bytes) || !inside(e.kind_offset, e.kind_bytes)) {
    return quire::fail(QUIRE_OUT_OF_RANGE, "events[%" PRIu64 "] points outside the %" PRIu64 " bytes of data", i, data_bytes);
  }
  if (e.tokens_offset % 8 != 0) return quire::invalid("events[%" PRIu64 "].tokens_offset is %" PRIu64, i, e.tokens_offset);
  return {};
}

Status check_encoding(const quire_event_encoding& encoding) {
  QUIRE_RETURN_IF_ERROR(c_api::check_flags(encoding.flags, QUIRE_EVENTS_WHOLE_HASHES, "encoding.flags"));
  if (!std::isfinite(encoding.time)) return quire::invalid("encoding.time is not a finite number");
  if (encoding.rank < -1) return quire::invalid("encoding.rank is %" PRId64 ", at least -1", encoding.rank);
  QUIRE_RETURN_IF_ERROR(c_api::check_text(encoding.medium, "encoding.medium", kMaxLabel));
  QUIRE_RETURN_IF_ERROR(c_api::check_text(encoding.locality, "encoding.locality", kMaxLabel));
  const bool is_text = quire::is_utf8(c_api::text_of(encoding.medium)) && quire::is_utf8(c_api::text_of(encoding.locality));
  return is_text ? Status() : quire::invalid("encoding.medium or encoding.locality is not UTF-8");
}

}  // namespace

quire_code quire_cache_read_events(quire_cache* cache, uint64_t from, quire_event* events, uint64_t capacity, uint8_t* data,
                                   uint64_t data_capacity, quire_event_batch* batch, quire_error* err) {
  return read_events(
      cache, "cache", events, capacity, data, data_capacity, batch, err,
      [from](const quire::Cache& object, auto out, auto bytes, auto* own) { return object.read_events(from, out, bytes, own); });
}

quire_code quire_cache_snapshot_events(quire_cache* cache, quire_event* events, uint64_t capacity, uint8_t* data, uint64_t data_capacity,
                                       quire_event_batch* batch, quire_error* err) {
  return read_events(cache, "cache", events, capacity, data, data_capacity, batch, err,
                     [](const quire::Cache& object, auto out, auto bytes, auto* own) { return object.snapshot_events(out, bytes, own); });
}

quire_code quire_tiers_read_events(quire_tiers* tiers, uint32_t tier, uint64_t from, quire_event* events, uint64_t capacity, uint8_t* data,
                                   uint64_t data_capacity, quire_event_batch* batch, quire_error* err) {
  return read_events(
      tiers, "tiers", events, capacity, data, data_capacity, batch, err,
      [&](const quire::TierSet& object, auto out, auto bytes, auto* own) { return object.read_events(tier, from, out, bytes, own); });
}

quire_code quire_events_encode(const quire_event* events, uint64_t num_events, const uint8_t* data, uint64_t data_bytes,
                               const quire_event_encoding* encoding, uint8_t* bytes, uint64_t capacity, uint64_t* count, quire_error* err) {
  return c_api::guard(err, [&]() -> Status {
    QUIRE_RETURN_IF_ERROR(c_api::check_array(events, num_events, "events"));
    QUIRE_RETURN_IF_ERROR(c_api::check_array(data, data_bytes, "data"));
    quire_event_encoding own{};
    QUIRE_RETURN_IF_ERROR(c_api::read_descriptor(encoding, &own, "encoding"));
    QUIRE_RETURN_IF_ERROR(check_encoding(own));
    QUIRE_RETURN_IF_ERROR(c_api::check_two_call(bytes, capacity, count));
    if (reinterpret_cast<uintptr_t>(data) % 8 != 0) return quire::invalid("data is not aligned to 8 bytes");
    std::vector<quire::WireEvent> wire;
    for (uint64_t i = 0; i < num_events; ++i) {
      QUIRE_RETURN_IF_ERROR(check_event(events[i], i, data_bytes));
      wire.push_back(quire::wire_of(events[i], data, (own.flags & QUIRE_EVENTS_WHOLE_HASHES) != 0));
      if (own.medium.len != 0) wire.back().medium = c_api::text_of(own.medium);
      wire.back().locality = c_api::text_of(own.locality);
    }
    std::string out;
    quire::encode_batch(own.time, wire, own.rank < 0 ? std::nullopt : std::optional<uint64_t>(static_cast<uint64_t>(own.rank)), &out);
    return c_api::write_two_call(std::span<const uint8_t>(reinterpret_cast<const uint8_t*>(out.data()), out.size()), bytes, capacity,
                                 count);
  });
}
