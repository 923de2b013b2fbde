#include "core/records/checksum.h"

#include <new>

#include "core/records/checksum_code.h"

namespace quire {
namespace {

struct Codes {
  std::array<ChecksumCode, 3> all{};
  size_t size = 0;
  Codes() {
#if defined(QUIRE_CHECKSUM_X86)
    if (__builtin_cpu_supports("avx512f")) all[size++] = kChecksumAvx512;
    if (__builtin_cpu_supports("avx2")) all[size++] = kChecksumAvx2;
#endif
    all[size++] = {"portable", sum_bytes, update_state};
  }
};

}  // namespace

std::span<const ChecksumCode> checksum_codes() {
  static const Codes codes;
  return {codes.all.data(), codes.size};
}

BlockChecksum::BlockChecksum(const ChecksumCode& code) : code_(&code) {
  static_assert(sizeof(XXH3_state_t) <= sizeof(state_) && alignof(XXH3_state_t) <= 64);
  auto* const state = new (state_.data()) XXH3_state_t;
  XXH3_INITSTATE(state);
  XXH3_64bits_reset(state);
}

void BlockChecksum::add(const void* bytes, uint64_t size) { code_->update(state_.data(), bytes, size); }

uint64_t BlockChecksum::sum() const { return XXH3_64bits_digest(reinterpret_cast<const XXH3_state_t*>(state_.data())); }

uint64_t checksum(const void* bytes, uint64_t size) { return checksum_codes()[0].sum(bytes, size); }

}  // namespace quire
