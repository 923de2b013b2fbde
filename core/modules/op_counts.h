// How often the ops of a device were called. Any thread counts, any thread reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace quire {

enum class CountedOp : uint8_t { kKvAppend, kAttention, kAttentionMerge, kGatedDelta, kConv1d, kSelectiveScan, kCopy, kFill };
inline constexpr std::array<const char*, 8> kOpNames = {
    "kv_append", "attention", "attention_merge", "gated_delta", "conv1d", "selective_scan", "copy", "fill"};

class OpCounts {
 public:
  struct Count {
    uint64_t queued = 0;  // the driver took it
    uint64_t failed = 0;
  };

  void add(CountedOp op, bool ok) noexcept { at(op, ok).fetch_add(1, std::memory_order_relaxed); }
  Count of(CountedOp op) const noexcept {
    return {at(op, true).load(std::memory_order_relaxed), at(op, false).load(std::memory_order_relaxed)};
  }

 private:
  using Cell = std::atomic<uint64_t>;
  Cell& at(CountedOp op, bool ok) { return counts_[static_cast<size_t>(op) * 2 + (ok ? 0 : 1)]; }
  const Cell& at(CountedOp op, bool ok) const { return counts_[static_cast<size_t>(op) * 2 + (ok ? 0 : 1)]; }

  std::array<Cell, 2 * kOpNames.size()> counts_{};
};

}  // namespace quire
