// quire/events.h
#include <quire/events.h>

#include <cinttypes>
#include <string>

#include "core/base/checked.h"
#include "core/gate/handles.h"
#include "core/prefix/block_hash.h"

namespace gate = quire::gate;
using quire::Status;

namespace {

constexpr uint64_t kMaxText = 4096;
constexpr uint64_t kMaxIdentifiers = uint64_t{1} << 30;

Status read_media(const quire_hash_options& options, std::vector<quire::MediaItem>* items) {
  QUIRE_RETURN_IF_ERROR(gate::check_array(options.media, options.num_media, "options.media"));
  QUIRE_RETURN_IF_ERROR(gate::check_text(options.identifiers, "options.identifiers", kMaxIdentifiers));
  const std::string_view text = gate::text_of(options.identifiers);
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
  QUIRE_RETURN_IF_ERROR(gate::check_flags(options.flags, QUIRE_HASH_LAST_MEDIA_ONLY, "options.flags"));
  QUIRE_RETURN_IF_ERROR(gate::check_next(options.next, "options"));
  QUIRE_RETURN_IF_ERROR(gate::check_text(options.seed, "options.seed", kMaxText));
  QUIRE_RETURN_IF_ERROR(gate::check_text(options.adapter, "options.adapter", kMaxText));
  QUIRE_RETURN_IF_ERROR(gate::check_text(options.salt, "options.salt", kMaxText));
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
  quire::KeySource source{gate::text_of(options.adapter), gate::text_of(options.salt), media, {}, 0, 0};
  if (options.embeds != nullptr) {
    if (!quire::BlockHasher::has_sha256()) {
      return quire::fail(QUIRE_UNIMPLEMENTED, "options.embeds: this library was built without libcrypto (SHA-256)");
    }
    source.embeds = {static_cast<const char*>(options.embeds), options.embed_rows * options.embed_row_bytes};
    source.embed_rows = options.embed_rows;
    source.embed_row_bytes = options.embed_row_bytes;
  }
  auto hasher = quire::BlockHasher::create(options.algorithm, gate::text_of(options.seed));
  if (!hasher.ok()) return hasher.take_status();
  const bool last_only = (options.flags & QUIRE_HASH_LAST_MEDIA_ONLY) != 0 && !media.empty();
  quire::BlockKeys keys(source, last_only ? media.size() - 1 : 0);
  quire::Digest parent = hasher->none();
  if (options.parent != nullptr) std::copy_n(options.parent, parent.size, parent.bytes.begin());
  for (uint64_t i = 0; i < count; ++i) {
    const auto begin = static_cast<int64_t>(options.first_token + i * options.block_tokens);
    const auto extra = keys.of_block(begin, begin + options.block_tokens, &*hasher);
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
  return gate::guard(err, [&]() -> Status {
    quire_hash_options own{};
    QUIRE_RETURN_IF_ERROR(gate::read_descriptor(options, &own, "options"));
    QUIRE_RETURN_IF_ERROR(check_options(own));
    QUIRE_RETURN_IF_ERROR(gate::check_array(tokens, num_tokens, "tokens"));
    QUIRE_RETURN_IF_ERROR(gate::check_two_call(digests, capacity, count));
    const uint64_t total = num_tokens / own.block_tokens;
    const uint64_t wanted = digests == nullptr ? 0 : std::min(total, capacity);
    QUIRE_RETURN_IF_ERROR(hash_blocks(own, {tokens, num_tokens}, digests, wanted));
    *count = total;
    return gate::finish_two_call(total, digests != nullptr, capacity);
  });
}
