// Block hashes as other systems know them: a chain of digests over (digest of the block before,
// tokens, extra keys). Encodings and functions are those of vLLM, so that routers agree on names.
// The index does not use them, because identity inside quire is exact.
#pragma once

#include <quire/events.h>

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"

namespace quire {

struct Digest {
  std::array<uint8_t, 32> bytes{};
  uint32_t size = 0;  // 32, or 16 for XXH3-128

  std::span<const uint8_t> view() const { return {bytes.data(), size}; }
  // The number that stands for a digest in events: its last 8 bytes, big endian.
  uint64_t external_int() const;
};

// The key under which connectors file a block of a group: its digest, then the group as 4 bytes,
// big endian.
class GroupKey {
 public:
  GroupKey(const Digest& digest, GroupId group);
  std::span<const uint8_t> view() const { return {bytes_.data(), size_}; }

 private:
  std::array<uint8_t, 36> bytes_{};
  uint32_t size_;
};

// What a block's hash covers in addition to its tokens.
struct ExtraKey {
  enum class Kind : uint8_t { kText, kMedia, kBytes };
  Kind kind = Kind::kText;
  std::string_view value;  // borrowed
  int64_t offset = 0;      // media: where the item starts, counted from the block's first token
};

class BlockHasher {
 public:
  // seed: the text whose hash starts every chain. UNIMPLEMENTED if the library was built without
  // the function.
  static Result<BlockHasher> create(quire_hash_algorithm algorithm, std::string_view seed);
  const Digest& none() const { return none_; }  // the parent of first blocks
  Digest hash(std::span<const uint8_t> parent, std::span<const int64_t> tokens, std::span<const ExtraKey> keys);
  // Of embeddings; empty when the library was built without libcrypto.
  static Digest sha256(std::string_view bytes);
  static bool has_sha256();
  // What the last hash() was computed over.
  std::string_view hashed_bytes() const { return buffer_; }

 private:
  BlockHasher() = default;
  Digest digest() const;

  bool pickle_ = false;
  bool xxhash_ = false;
  std::string buffer_;
  Digest none_;
};

struct MediaItem {
  std::string_view identifier;
  int64_t position = 0;
  int64_t length = 0;
};

// The keys of one sequence, block by block from the start on.
struct KeySource {
  std::string_view adapter, salt;
  std::span<const MediaItem> media;  // by position
  std::string_view embeds;           // rows of embed_row_bytes
  uint64_t embed_row_bytes = 0;
  uint64_t embed_rows = 0;
};

class BlockKeys {
 public:
  // first_item: media before it are not looked at. scratch: where the keys are kept, or null.
  BlockKeys(const KeySource& source, size_t first_item, std::vector<ExtraKey>* scratch = nullptr)
      : source_(&source), item_(first_item), keys_(scratch != nullptr ? *scratch : own_) {}
  BlockKeys(const BlockKeys&) = delete;
  BlockKeys& operator=(const BlockKeys&) = delete;
  // Keys of the block [begin, end); valid until the next call. Blocks must be asked for in order.
  std::span<const ExtraKey> of_block(int64_t begin, int64_t end);

 private:
  const KeySource* source_;
  size_t item_;
  Digest embeds_;
  std::vector<ExtraKey> own_;
  std::vector<ExtraKey>& keys_;
};

}  // namespace quire
