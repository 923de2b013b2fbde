// The bytes of one shard bound to a plan: who owns them, where each layer's cache lies in them, and
// the zeroes and copies of a step executed on them.
#pragma once

#include <quire/memory.h>
#include <quire/ops.h>
#include <quire/step.h>

#include <array>
#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/layout/dlpack_tensor.h"
#include "core/modules/module_search.h"
#include "core/plan/cache_config.h"

namespace quire {

class Memory : public std::enable_shared_from_this<Memory> {
 public:
  // Regions of the shard from the driver. Errors: OUT_OF_RANGE (shard), RESOURCE_EXHAUSTED.
  static Result<std::shared_ptr<Memory>> create(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard);
  // The engine's bytes, never freed. Only the null page is written.
  static Result<std::shared_ptr<Memory>> bind(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard,
                                              std::span<const quire_memory_binding> bindings);
  // One tensor per region, in their order. On success their deleters run with the memory; on
  // failure they stay the caller's.
  static Result<std::shared_ptr<Memory>> bind_dlpack(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard,
                                                     std::span<const quire_dlpack> tensors);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  const Config* config() const { return config_.get(); }
  uint32_t shard() const { return shard_; }
  const Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }

  Status region(uint32_t index, void** address, uint64_t* bytes) const;
  Status paged_kv(uint32_t layer, uint32_t sub, quire_paged_kv* out) const;
  Status paged_state(uint32_t layer, uint32_t sub, uint32_t tensor, quire_paged_state* out) const;
  // Any kind of quire_export.
  Result<DlpackSource> view_of(const quire_export& what) const;

  // Queues zeroes, then copies. Allocates nothing.
  Status prepare_step(std::span<const quire_copy> copies, std::span<const quire_zero> zeroes, const Stream& stream);
  Status poison(const Stream& stream, uint8_t byte) const;
  // Any thread.
  struct Counts {
    uint64_t prepared_steps = 0, zeroed_bytes = 0, copied_bytes = 0;
  };
  Counts counts() const;
  uint64_t num_bytes() const;  // of all regions

 private:
  struct Region {
    unsigned char* address = nullptr;
    uint64_t bytes = 0;
  };
  // A batch of runs lent to a driver until its event says done.
  static constexpr uint32_t kBatchRuns = 1024;
  static constexpr uint32_t kBatches = 8;
  struct Batch {
    std::vector<quire_copy_run> runs;  // capacity kBatchRuns, never grows
    quire_driver_event* event = nullptr;
    bool lent = false;
  };

  Memory(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard)
      : device_(std::move(device)), config_(std::move(config)), shard_(shard) {}

  static Result<std::shared_ptr<Memory>> start(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard);
  const ShardPlan& plan() const { return config_->shards[shard_]; }
  Status check_binding(const char* name, const quire_region_info& want, const void* address, uint64_t bytes, int32_t device_type,
                       int32_t device_id) const;
  Status check_apart() const;
  Status finish();  // scratch, then the null page
  Status make_scratch();
  Status fill_page(const Stream& stream, uint64_t page, uint8_t byte) const;
  Status check_stream(const Stream& stream) const;
  Status check_id(const char* what, uint32_t group, uint32_t column, int32_t id) const;
  void append_runs(uint32_t group, uint32_t column, int32_t id, std::vector<quire_segment>* runs) const;
  Status zero(const quire_zero& item, const Stream& stream);
  Status copy(const quire_copy& item, const Stream& stream);
  Status add_run(const Stream& stream, uint64_t source, uint64_t destination, uint64_t bytes);
  Status flush(const Stream& stream);
  Status take_back(Batch* batch, const Stream& stream);
  // The views of a layer's cache; NOT_FOUND when it has none here.
  Result<const PlaceViews*> views(uint32_t layer, uint32_t sub, const char* what) const;
  Result<DlpackSource> layer_of(const quire_export& what) const;
  Result<DlpackSource> page_of(const quire_export& what) const;

  std::shared_ptr<Device> device_;
  std::shared_ptr<const Config> config_;
  uint32_t shard_ = 0;
  std::vector<Region> regions_;
  bool owns_regions_ = false;
  std::vector<quire_dlpack> tensors_;  // their deleters run with the memory
  std::array<Batch, kBatches> batches_;
  uint32_t next_batch_ = 0;
  bool has_events_ = false;
  std::atomic<uint64_t> prepared_steps_{0}, zeroed_bytes_{0}, copied_bytes_{0};
  std::vector<quire_segment> from_;  // scratch of one id's runs
  std::vector<quire_segment> to_;
};

}  // namespace quire
