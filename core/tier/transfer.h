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
#include "core/records/record_header.h"
#include "core/records/record_runs.h"
#include "core/tier/connector_tier.h"
#include "core/tier/shard_bytes.h"
#include "core/tier/tier_plan.h"

namespace quire {

// kDescription: of an offer; its size is looked up first. kComing: a look-up of what an offer that
// grows does not have yet.
enum class TransferKind : uint8_t { kLookup, kStore, kLoad, kRemove, kDescription, kComing };

// Bytes [begin, end) of a record.
struct ByteRange {
  uint64_t begin = 0, end = 0;
};

// Memory for bytes that a connector brings: nothing is written into it first.
class RawBytes {
 public:
  void allocate(size_t n) {
    bytes_.reset(new uint8_t[n]);
    size_ = n;
  }
  void release() {
    bytes_.reset();
    size_ = 0;
  }
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  uint8_t* data() const { return bytes_.get(); }
  std::span<uint8_t> all() const { return {data(), size()}; }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
};

// A copy that was queued, and what it reads.
struct DeviceCopy {
  uint32_t shard = 0;
  uint64_t number = 0;
  std::shared_ptr<StagedBytes> from;
};

struct Transfer {
  TransferKind kind = TransferKind::kLookup;
  uint32_t tier = 0;
  uint32_t owner = 0;  // of a store: the unit; of a look-up or load: the fetch, or kNone
  uint32_t part = 0;   // of a load: the source
  uint64_t end = 0;    // tokens: the unit's
  RecordKey key{};
  uint64_t bytes = 0;
  int64_t begun = 0;
  std::array<BlockStretch, 2> blocks{};  // of the record
  std::array<BlockStretch, 2> wanted{};  // loads: those of them that are brought
  uint64_t header_bytes = 0;
  std::vector<PayloadRun> runs;  // in the shard's regions
  std::vector<uint8_t> keys;     // look-ups, and what is asked of a peer; empty: it is `key`
  std::vector<uint64_t> sizes;   // look-ups: the answers
  RawBytes whole;                // loads of records that are arranged otherwise
  // Of a shard on a device: what is stored, or what comes, with its header. Others may have it.
  std::shared_ptr<StagedBytes> staged;
  // Loads of a record that shards of other devices read, too: room for it there.
  std::vector<std::shared_ptr<StagedBytes>> staged_for_others;
  std::vector<DeviceCopy> copies;  // loads: to devices, until they are done
  std::vector<ByteRange> read;     // of `whole`: in order; the first begins with the header
  uint64_t region = 0;             // of `whole`
  uint32_t assembly = kNone;       // loads: of the fetch
  uint64_t quarantine = 0;         // the hold that its end lets go; 0: none

  // Where a peer is asked its handle and address follow the key.
  void name_keys(std::span<const uint8_t> of_peer) {
    if (of_peer.empty()) return;
    keys.assign(key.begin(), key.end());
    keys.insert(keys.end(), of_peer.begin(), of_peer.end());
  }
  // Loads that do not come into the pool at once: the record, or room for it.
  std::span<uint8_t> record() const { return staged != nullptr ? staged->bytes() : whole.all(); }
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

// The runs of a ticket that reads ranges of a record into memory that has a place for all of it.
void add_range_runs(std::span<uint8_t> record, uint64_t region,  // of the connector; 0: none
                    std::span<const ByteRange> ranges, std::vector<quire_ticket_run>* out);
// The runs of a ticket: the header, then the payload where it lies in the shard.
void add_header_run(std::span<uint8_t> header, uint64_t region, std::vector<quire_ticket_run>* out);
void add_payload_runs(const ShardBytes& bytes, std::span<const uint64_t> regions, std::span<const PayloadRun> runs, uint64_t header_bytes,
                      std::vector<quire_ticket_run>* out);

}  // namespace quire
