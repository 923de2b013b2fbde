#include "core/tier/transfer.h"

#include <cstdlib>

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
  t.read.clear();
  t.keys.clear();
  t.assembly = kNone;
  t.bytes = t.header_bytes = t.region = t.quarantine = 0;
  return slot;
}

void Transfers::close(uint32_t slot) {
  ++lives_[slot];
  open_[slot] = false;
  slots_[slot].whole.release();  // rare and large
  slots_[slot].staged.reset();
  slots_[slot].staged_for_others.clear();
  slots_[slot].copies.clear();
  free_.push_back(slot);
}

uint32_t Transfers::find(uint64_t ticket) const {
  const auto slot = static_cast<uint32_t>(ticket & 0xffff);
  return slot < kMost && open_[slot] && lives_[slot] == ticket >> 16 ? slot : kNone;
}

void add_range_runs(std::span<uint8_t> record, uint64_t region, std::span<const ByteRange> ranges, std::vector<quire_ticket_run>* out) {
  for (const ByteRange& range : ranges) {
    out->push_back({region, reinterpret_cast<uint64_t>(record.data() + range.begin), range.end - range.begin, 1, 0, range.begin, 0});
  }
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

}  // namespace quire
