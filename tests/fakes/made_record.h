// Records as bytes, for clients of the C API that look at some: as core/records writes them, and
// with whatever a test wants to lie about.
#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace quire::test {

struct MadeRecord {
  // Places in a header, see core/records/record_header.cc.
  static constexpr size_t kSizeAt = 12, kSumAt = 16, kPayloadAt = 24, kBlockTokensAt = 144, kBlockBytesAt = 152;
  static constexpr size_t kStretchesAt = 160, kShapeBytesAt = 200, kSumsAt = 208, kShapeAt = 224;
  static constexpr size_t kGrain = 4096;

  std::array<uint8_t, 32> key{}, fingerprint{}, prefix{};
  uint64_t first_token = 0, end_token = 64;
  uint32_t block_tokens = 16;  // 0: a state
  uint64_t block_bytes = 4096;
  std::array<uint64_t, 4> stretches{0, 4, 0, 0};
  int64_t written_at = 0;
  uint32_t first_head = 0, num_heads = 2;
  uint32_t rank = 0, num_ranks = 1;
  std::vector<uint32_t> layers{0};

  uint64_t num_blocks() const { return stretches[1] - stretches[0] + stretches[3] - stretches[2]; }

  // Header and payload.
  std::vector<uint8_t> bytes() const {
    std::vector<uint8_t> payload(num_blocks() * block_bytes);
    for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<uint8_t>(i * i >> 5);
    const std::vector<uint8_t> shape = encoded_shape();
    std::vector<uint8_t> out;
    put(0x31766b6572697571u, 8, &out);
    put(1, 4, &out);
    put((224 + shape.size() + 8 * num_blocks() + kGrain - 1) / kGrain * kGrain, 4, &out);
    put(0, 8, &out);
    put(payload.size(), 8, &out);
    for (const auto* name : {&key, &fingerprint, &prefix}) out.insert(out.end(), name->begin(), name->end());
    for (const uint64_t number : {first_token, end_token, uint64_t{block_tokens}, block_bytes}) put(number, 8, &out);
    for (const uint64_t block : stretches) put(block, 8, &out);
    for (const uint64_t number : {static_cast<uint64_t>(written_at), uint64_t{shape.size()}, num_blocks(), uint64_t{0}})
      put(number, 8, &out);
    out.insert(out.end(), shape.begin(), shape.end());
    for (uint64_t block = 0; block < num_blocks(); ++block) put(XXH3_64bits(&payload[block * block_bytes], block_bytes), 8, &out);
    out.resize((out.size() + kGrain - 1) / kGrain * kGrain);
    sign(&out);
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
  }

  // What a header says of itself is true again.
  static void sign(std::vector<uint8_t>* record) {
    uint32_t size = 0;
    std::memcpy(&size, &(*record)[kSizeAt], sizeof size);
    std::memset(&(*record)[kSumAt], 0, 8);
    const uint64_t sum = XXH3_64bits(record->data(), size);
    std::memcpy(&(*record)[kSumAt], &sum, sizeof sum);
  }

 private:
  static void put(uint64_t value, int bytes, std::vector<uint8_t>* out) {
    for (int i = 0; i < bytes; ++i) out->push_back(static_cast<uint8_t>(value >> 8 * i));
  }
  std::vector<uint8_t> encoded_shape() const {
    const bool is_state = block_tokens == 0;
    const std::string order = "BPJKTHD";
    std::vector<uint8_t> out;
    put(order.size(), 4, &out);
    for (const char letter : order) put(static_cast<uint8_t>(letter), 1, &out);
    for (const uint32_t number : {is_state ? 1u : 0u, 1u, 1u}) put(number, 4, &out);  // kernel blocks, slices
    for (const uint32_t number : {first_head, num_heads, block_tokens, is_state ? 0u : rank, is_state ? 1u : num_ranks})
      put(number, 4, &out);
    put(is_state ? 1 : 0, 4, &out);  // tensors
    for (const uint32_t number : {num_ranks, rank, 0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u}) {
      if (is_state) put(number, 4, &out);
    }
    for (const uint64_t extent : {block_bytes, uint64_t{0}, uint64_t{0}, uint64_t{0}}) {
      if (is_state) put(extent, 8, &out);
    }
    put(layers.size(), 4, &out);
    for (const uint32_t layer : layers) {
      for (const uint32_t number : {layer, 0u, 0u}) put(number, 4, &out);
    }
    return out;
  }
};

}  // namespace quire::test
