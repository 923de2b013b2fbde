#include "plugins/common/stream_copy.h"

#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace quire::plugins {

// Stores that pass the caches, with the source fetched ahead. What a store keeps was read once and is read again much later, if ever.
// Pieces of 2 MiB in 1 GiB take 0.8 of memcpy's time on a Zen 5 and 0.5 on a Zen 4. How wide the stores are matters: with 16 bytes and a
// source fetched 512 bytes ahead, the Zen 5 takes 1.3 of memcpy's time. Below 16 KiB memcpy is faster. Sanitizers know memcpy only.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

constexpr uint64_t kStreamBytes = 16384;
constexpr uint64_t kAhead = 2048;
constexpr uint64_t kLine = 64;

// These copy whole lines; `to` is aligned to a line.
using CopyLines = void (*)(char* to, const char* from, uint64_t bytes);

void lines_by_16(char* to, const char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(from + i + kAhead, _MM_HINT_NTA);
    const auto* source = reinterpret_cast<const __m128i*>(from + i);
    auto* target = reinterpret_cast<__m128i*>(to + i);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
}

__attribute__((target("avx2"))) void lines_by_32(char* to, const char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(from + i + kAhead, _MM_HINT_NTA);
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i + 32));
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i), a);
    _mm256_stream_si256(reinterpret_cast<__m256i*>(to + i + 32), b);
  }
}

__attribute__((target("avx512f"))) void lines_by_64(char* to, const char* from, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(from + i + kAhead, _MM_HINT_NTA);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
  }
}

CopyLines choose_lines() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f")) return lines_by_64;
  if (__builtin_cpu_supports("avx2")) return lines_by_32;
  return lines_by_16;
}

const CopyLines kCopyLines = choose_lines();

}  // namespace

void stream_copy(void* to, const void* from, uint64_t bytes) {
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  if (bytes < kStreamBytes) {
    std::memcpy(target, source, bytes);
    return;
  }
  const uint64_t head = (kLine - (reinterpret_cast<uintptr_t>(target) & (kLine - 1))) & (kLine - 1);
  const uint64_t lines = (bytes - head) & ~(kLine - 1);
  std::memcpy(target, source, head);
  kCopyLines(target + head, source + head, lines);
  std::memcpy(target + head + lines, source + head + lines, bytes - head - lines);
}

void end_of_stream_copies() { _mm_sfence(); }
#else
void stream_copy(void* to, const void* from, uint64_t bytes) { std::memcpy(to, from, bytes); }
void end_of_stream_copies() {}
#endif

}  // namespace quire::plugins
