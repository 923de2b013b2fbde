// One object on its way, and what all of them share: the bytes of the shards, headers, tickets.
#pragma once

#include <quire/connector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/memory/shard_memory.h"
#include "core/records/record_header.h"
#include "core/records/record_runs.h"
#include "core/tier/tier.h"
#include "core/tier/tier_plan.h"

namespace quire {

enum class TransferKind : uint8_t { kLookup, kStore, kLoad, kRemove };

struct Transfer {
  TransferKind kind = TransferKind::kLookup;
  uint32_t tier = 0;
  uint32_t owner = 0;  // of a store: the unit; of a look-up or load: the fetch, or kNone
  uint32_t part = 0;
  uint64_t end = 0;  // tokens: the unit's
  RecordKey key{};
  uint64_t bytes = 0;
  int64_t begun = 0;
  std::array<BlockStretch, 2> blocks{};  // of the record
  std::array<BlockStretch, 2> wanted{};  // loads: those of them that are brought
  uint64_t header_bytes = 0;
  std::vector<PayloadRun> runs;  // in the shard's regions
  std::vector<uint8_t> keys;     // look-ups
  std::vector<uint64_t> sizes;   // look-ups: the answers
  std::vector<uint8_t> whole;    // loads of records that are arranged otherwise
  uint64_t region = 0;           // of `whole`
  uint64_t quarantine = 0;       // the hold that its end lets go; 0: none
};

// The regions of one shard.
struct ShardBytes {
  std::vector<std::byte*> regions;
  std::vector<std::vector<uint64_t>> ids;  // [tier][region], 0 where bytes need no registration
};

// Slots of transfers. Each has room for a header, aligned to a page of memory. A slot and its
// vectors are used again, so what goes on does not allocate.
class Transfers {
 public:
  static constexpr uint32_t kMost = 1024;  // objects at the same time

  // header_bytes: of the longest.
  static Result<std::unique_ptr<Transfers>> make(uint64_t header_bytes);
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  bool is_open(uint32_t slot) const { return open_[slot]; }
  bool is_full() const { return free_.empty(); }
  uint32_t num_in_use() const { return kMost - static_cast<uint32_t>(free_.size()); }
  // There must be one.
  uint32_t open();
  void close(uint32_t slot);
  Transfer& at(uint32_t slot) { return slots_[slot]; }
  std::span<uint8_t> header(uint32_t slot) const { return {headers_ + slot * header_bytes_, header_bytes_}; }
  std::span<std::byte> arena() const { return {reinterpret_cast<std::byte*>(headers_), kMost * header_bytes_}; }

  // The number of a ticket names its slot and the slot's life.
  uint64_t ticket(uint32_t slot) const { return slot | lives_[slot] << 16; }
  // kNone: none of ours.
  uint32_t find(uint64_t ticket) const;

 private:
  explicit Transfers(uint64_t header_bytes) : slots_(kMost), lives_(kMost, 1), open_(kMost), header_bytes_(header_bytes) {}

  std::vector<Transfer> slots_;
  std::vector<uint64_t> lives_;
  std::vector<bool> open_;
  std::vector<uint32_t> free_;
  uint8_t* headers_ = nullptr;
  uint64_t header_bytes_;
};

// The runs of a ticket: the header, then the payload where it lies in the shard.
void add_header_run(std::span<uint8_t> header, uint64_t region, std::vector<quire_ticket_run>* out);
void add_payload_runs(const ShardBytes& bytes, std::span<const uint64_t> regions, std::span<const PayloadRun> runs, uint64_t header_bytes,
                      std::vector<quire_ticket_run>* out);

// XXH3-64 of the blocks that the runs bring, in the order of the payload: sum(block of the payload,
// checksum). Blocks are brought whole. scratch: memory that is used again.
template <typename Sum>
void sum_blocks(const ShardBytes& bytes, std::span<const PayloadRun> runs, uint64_t block_bytes, std::vector<uint8_t>* scratch, Sum sum);

namespace internal {
// Whether the runs are dense pieces in the order of the payload.
bool is_in_order(std::span<const PayloadRun> runs);
// Whether a payload of so many bytes has all of the run.
bool lies_within(const PayloadRun& run, uint64_t payload_bytes);
void copy_runs(const ShardBytes& bytes, std::span<const PayloadRun> runs, uint64_t first, bool to_shard, std::span<uint8_t> payload);
}  // namespace internal

template <typename Sum>
void sum_blocks(const ShardBytes& bytes, std::span<const PayloadRun> runs, uint64_t block_bytes, std::vector<uint8_t>* scratch, Sum sum) {
  if (runs.empty()) return;
  if (!internal::is_in_order(runs)) {
    uint64_t first = UINT64_MAX, end = 0;
    for (const PayloadRun& run : runs) {
      first = std::min(first, run.payload_offset / block_bytes);
      end = std::max(end, (run.payload_offset + (run.count - 1) * static_cast<uint64_t>(std::max<int64_t>(run.payload_stride, 0)) +
                           run.bytes + block_bytes - 1) /
                              block_bytes);
    }
    scratch->resize((end - first) * block_bytes);
    internal::copy_runs(bytes, runs, first * block_bytes, false, *scratch);
    for (uint64_t block = first; block < end; ++block) sum(block, checksum(scratch->data() + (block - first) * block_bytes, block_bytes));
    return;
  }
  BlockChecksum parts;
  uint64_t filled = 0;  // bytes of the block that is summed in parts
  for (const PayloadRun& run : runs) {
    const std::byte* at = bytes.regions[run.region] + run.offset;
    for (uint64_t done = 0; done < run.bytes;) {
      const uint64_t payload = run.payload_offset + done, block = payload / block_bytes;
      const uint64_t n = std::min(run.bytes - done, (block + 1) * block_bytes - payload);
      if (n == block_bytes) {
        sum(block, checksum(at + done, n));
      } else {
        if (filled == 0) parts = BlockChecksum();
        parts.add(at + done, n);
        filled += n;
        if (filled == block_bytes) {
          sum(block, parts.sum());
          filled = 0;
        }
      }
      done += n;
    }
  }
}

}  // namespace quire
