// XXH3-64 of blocks, by the widest instructions of this processor. A record is summed when it is
// stored and when it comes back, so this is to be faster than memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/prefetch.h"

namespace quire {

// libxxhash, compiled for one set of instructions. All give the same sums.
struct ChecksumCode {
  const char* instructions;
  uint64_t (*sum)(const void* bytes, size_t size);
  void (*update)(void* state, const void* bytes, size_t size);  // an XXH3_state_t
};

// Those that run here: the widest first, the portable ones last.
std::span<const ChecksumCode> checksum_codes();

// Of one block whose bytes come in pieces, in their order.
class BlockChecksum {
 public:
  // code: lives as long as this.
  explicit BlockChecksum(const ChecksumCode& code = checksum_codes()[0]);
  void add(const void* bytes, uint64_t size);
  uint64_t sum() const;

 private:
  const ChecksumCode* code_;
  alignas(64) std::array<unsigned char, 640> state_;  // of libxxhash
};
uint64_t checksum(const void* bytes, uint64_t size);

// Fetches the first bytes of the piece that is summed next, if it lies elsewhere: what a sum
// fetches ahead are bytes of its own piece.
inline void prefetch_piece(const void* bytes, uint64_t size) {
  constexpr uint64_t kLine = 64, kFirst = 2048;
  const auto* const at = static_cast<const char*>(bytes);
  for (uint64_t i = 0; i < size && i < kFirst; i += kLine) prefetch_to_read(at + i);
}

}  // namespace quire
