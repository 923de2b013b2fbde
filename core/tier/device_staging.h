// Bytes of a shard on a device, on their way to and from the host. A connector addresses the host
// only. So what is kept is copied into host memory of the device's driver first, and what comes
// back is copied from there. The copies have a stream of their own: they wait for no kernel, and
// delay none. Whoever queues one has seen to it that nobody writes its bytes meanwhile.
#pragma once

#include <quire/ops.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/memory/shard_memory.h"
#include "core/records/record_runs.h"

namespace quire {

class DeviceStaging;

// Host memory that the device can address. It is used again once no copy of it is on its way.
class StagedBytes {
 public:
  // The first `bytes` of the place.
  StagedBytes(DeviceStaging& staging, std::span<uint8_t> place, uint64_t bytes, bool for_store)
      : staging_(staging), place_(place), bytes_(bytes), for_store_(for_store) {}
  ~StagedBytes();
  StagedBytes(const StagedBytes&) = delete;
  StagedBytes& operator=(const StagedBytes&) = delete;

  const DeviceStaging& staging() const { return staging_; }
  std::span<uint8_t> bytes() const { return place_.first(bytes_); }

 private:
  friend class DeviceStaging;

  DeviceStaging& staging_;
  std::span<uint8_t> place_;
  uint64_t bytes_;
  uint64_t copy_ = 0;  // the last one from or to it
  bool for_store_;
};

class DeviceStaging {
 public:
  // At the same time, of one shard. One larger record is staged alone.
  static constexpr uint64_t kMostBytes = uint64_t{1} << 28;

  static Result<std::unique_ptr<DeviceStaging>> make(std::shared_ptr<Memory> memory);
  ~DeviceStaging();  // waits for the copies; all staged bytes must be gone
  DeviceStaging(const DeviceStaging&) = delete;
  DeviceStaging& operator=(const DeviceStaging&) = delete;

  // Null: others have it all now. Errors: RESOURCE_EXHAUSTED, and the driver's.
  Result<std::shared_ptr<StagedBytes>> take(uint64_t bytes, bool for_store);
  // Queues copies between the shard and `staged`, of which the payload begins at `first`. Returns
  // their number. After an error none is on its way.
  Result<uint64_t> copy(std::span<const PayloadRun> runs, bool to_shard, uint64_t first,  //
                        StagedBytes* staged);
  // The same with a payload in memory that was pinned.
  Result<uint64_t> copy(std::span<const PayloadRun> runs, bool to_shard, uint8_t* payload);
  // Whether all copies up to this number are done. After an error they are done, with what result
  // nobody knows.
  Result<bool> is_done(uint64_t copy);
  Status wait(uint64_t copy);
  // Host memory that the device can address, whose owner counts it: it is no part of kMostBytes.
  // Slow. Errors: RESOURCE_EXHAUSTED, and the driver's.
  Result<std::span<uint8_t>> pin(uint64_t bytes);
  // No copy of it is on its way.
  void unpin(std::span<uint8_t> bytes) noexcept;

 private:
  friend class StagedBytes;
  struct Copy {
    std::vector<quire_copy_run> runs;  // lent to the driver
    std::unique_ptr<Event> event;
  };
  struct Place {
    std::span<uint8_t> bytes;
    uint64_t copy = 0;  // it is free once this is done
  };

  DeviceStaging(std::shared_ptr<Memory> memory, std::shared_ptr<Stream> stream)  //
      : memory_(std::move(memory)), stream_(std::move(stream)) {}
  void give_back(std::span<uint8_t> place, uint64_t copy, bool for_store) noexcept;
  void finish() noexcept;
  void release(std::span<uint8_t> bytes) noexcept;
  Status lost() const;
  // A place of this size that nobody uses; empty: there is none.
  std::span<uint8_t> reuse(uint64_t bytes);

  std::shared_ptr<Memory> memory_;
  std::shared_ptr<Stream> stream_;
  std::vector<unsigned char*> regions_;
  std::deque<Copy> under_way_;  // in the order of their numbers
  std::vector<Copy> spare_;     // events and lists, used again
  std::vector<Place> places_;   // that nobody has
  uint64_t queued_ = 0, done_ = 0;
  uint64_t held_ = 0;  // bytes of all places
  uint64_t held_by_stores_ = 0;
  size_t num_taken_ = 0;
  bool is_lost_ = false;
};

}  // namespace quire
