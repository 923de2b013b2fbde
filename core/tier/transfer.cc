#include "core/tier/transfer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace quire {

Result<std::unique_ptr<Transfers>> Transfers::make(uint64_t header_bytes) {
  std::unique_ptr<Transfers> made(new Transfers(header_bytes));
  made->headers_ = static_cast<uint8_t*>(std::aligned_alloc(kHeaderGrain, kMost * header_bytes));
  if (made->headers_ == nullptr) {
    return fail(QUIRE_RESOURCE_EXHAUSTED, "tiers: no host memory for %u headers of %llu bytes", kMost,
                static_cast<unsigned long long>(header_bytes));
  }
  made->free_.reserve(kMost);
  for (uint32_t slot = kMost; slot > 0; --slot) made->free_.push_back(slot - 1);
  return made;
}

Transfers::~Transfers() { std::free(headers_); }

uint32_t Transfers::open() {
  const uint32_t slot = free_.back();
  free_.pop_back();
  open_[slot] = true;
  Transfer& t = slots_[slot];
  t.owner = kNone;
  t.blocks = t.wanted = {};
  t.runs.clear();
  t.whole.clear();
  t.bytes = t.header_bytes = t.region = t.quarantine = 0;
  return slot;
}

void Transfers::close(uint32_t slot) {
  ++lives_[slot];
  open_[slot] = false;
  // A record that was arranged otherwise is rare and large: its memory goes.
  if (!slots_[slot].whole.empty()) std::vector<uint8_t>().swap(slots_[slot].whole);
  free_.push_back(slot);
}

uint32_t Transfers::find(uint64_t ticket) const {
  const auto slot = static_cast<uint32_t>(ticket & 0xffff);
  return slot < kMost && open_[slot] && lives_[slot] == ticket >> 16 ? slot : kNone;
}

void add_header_run(std::span<uint8_t> header, uint64_t region, std::vector<quire_ticket_run>* out) {
  out->push_back({region, reinterpret_cast<uint64_t>(header.data()), header.size(), 1, 0, 0, 0});
}

void add_payload_runs(const ShardBytes& bytes, std::span<const uint64_t> regions, std::span<const PayloadRun> runs, uint64_t header_bytes,
                      std::vector<quire_ticket_run>* out) {
  for (const PayloadRun& run : runs) {
    const auto address = reinterpret_cast<uint64_t>(bytes.regions[run.region] + run.offset);
    out->push_back({regions[run.region], address, run.bytes, run.count, run.stride, header_bytes + run.payload_offset, run.payload_stride});
  }
}

namespace internal {

bool is_in_order(std::span<const PayloadRun> runs) {
  uint64_t end = 0;
  for (const PayloadRun& run : runs) {
    if (run.count != 1 || run.payload_offset < end) return false;
    end = run.payload_offset + run.bytes;
  }
  return true;
}

bool lies_within(const PayloadRun& run, uint64_t payload_bytes) {
  if (run.count == 0 || run.bytes == 0) return true;
  const auto last = static_cast<__int128>(run.count - 1) * run.payload_stride + static_cast<__int128>(run.payload_offset);
  const auto least = std::min(last, static_cast<__int128>(run.payload_offset)),
             most = std::max(last, static_cast<__int128>(run.payload_offset));
  return least >= 0 && most + static_cast<__int128>(run.bytes) <= static_cast<__int128>(payload_bytes);
}

void copy_runs(const ShardBytes& bytes, std::span<const PayloadRun> runs, uint64_t first, bool to_shard, std::span<uint8_t> payload) {
  for (const PayloadRun& run : runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      std::byte* const own = bytes.regions[run.region] + run.offset + i * static_cast<uint64_t>(run.stride);
      uint8_t* const record = payload.data() + run.payload_offset - first + i * static_cast<uint64_t>(run.payload_stride);
      std::memcpy(to_shard ? static_cast<void*>(own) : record, to_shard ? record : static_cast<const void*>(own), run.bytes);
    }
  }
}

}  // namespace internal
}  // namespace quire
