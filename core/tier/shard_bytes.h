// The bytes of shards as what moves records needs them: addresses of regions, copies and checksums
// between them and a payload.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/memory/shard_memory.h"
#include "core/records/checksum.h"
#include "core/records/record_header.h"
#include "core/records/record_runs.h"
#include "core/tier/device_staging.h"

namespace quire {

// The regions of one shard.
struct ShardBytes {
  std::vector<std::byte*> regions;         // on a device: not to be read or written here
  std::vector<std::vector<uint64_t>> ids;  // [tier][region], 0 where bytes need no registration
  std::unique_ptr<DeviceStaging> staging;  // null: host memory
};

// One memory and one stream for each shard of the config. Errors: INVALID_ARGUMENT.
Status check_shards(const Config& config, std::span<const std::shared_ptr<Memory>> memories,
                    std::span<const std::shared_ptr<Stream>> streams);
// Addresses of the regions; no ids. Errors: the driver's, for bytes on a device.
Result<std::vector<ShardBytes>> bytes_of_shards(std::span<const std::shared_ptr<Memory>> memories);

// XXH3-64 of the blocks that the runs bring, in the order of the payload: sum(block of the payload,
// checksum). Blocks are brought whole. scratch: memory that is used again.
template <typename Sum>
void sum_blocks(const ShardBytes& bytes, std::span<const PayloadRun> runs, uint64_t block_bytes, std::vector<uint8_t>* scratch, Sum sum);

// Copies between the shard and a payload, and waits for that.
Status move_runs(const ShardBytes& bytes, std::span<const PayloadRun> runs, bool to_shard,  //
                 std::span<uint8_t> payload);

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
    for (uint64_t block = first; block < end; ++block) {
      const uint8_t* const bytes_of_block = scratch->data() + (block - first) * block_bytes;
      sum(block, checksum(bytes_of_block, block_bytes));
    }
    return;
  }
  BlockChecksum parts;
  uint64_t filled = 0;  // bytes of the block that is summed in parts
  for (size_t i = 0; i < runs.size(); ++i) {
    const PayloadRun& run = runs[i];
    const std::byte* at = bytes.regions[run.region] + run.offset;
    for (uint64_t done = 0; done < run.bytes;) {
      const uint64_t payload = run.payload_offset + done, block = payload / block_bytes;
      const uint64_t n = std::min(run.bytes - done, (block + 1) * block_bytes - payload);
      if (done + n == run.bytes && i + 1 < runs.size()) {
        const PayloadRun& next = runs[i + 1];
        prefetch_piece(bytes.regions[next.region] + next.offset, next.bytes);
      }
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
