#include "core/memory/shard_memory.h"

#include <algorithm>
#include <cinttypes>

#include "core/base/checked.h"
#include "core/memory/allocate.h"

namespace quire {
namespace {

quire_error empty_error() {
  quire_error error{};
  error.struct_size = sizeof error;
  return error;
}

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// A plan's regions as their own numbers describe them.
Status check_region(const quire_region_info& region, uint64_t num_pages) {
  const auto bytes = checked_product({region.page_stride, region.num_planes, num_pages});
  if (!bytes || *bytes > region.bytes || region.alignment == 0 || (region.alignment & (region.alignment - 1)) != 0) {
    return fail(QUIRE_INTERNAL,
                "region %u of the plan: %" PRIu64 " planes of %" PRIu64 " pages of %" PRIu64 " bytes, aligned to %" PRIu64
                ", do not fit its %" PRIu64 " bytes",
                region.region, region.num_planes, num_pages, region.page_stride, region.alignment, region.bytes);
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Memory>> Memory::start(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard) {
  if (shard >= config->shards.size()) return fail(QUIRE_OUT_OF_RANGE, "shard %u: the plan has %zu", shard, config->shards.size());
  for (const quire_region_info& region : config->shards[shard].regions) QUIRE_RETURN_IF_ERROR(check_region(region, config->num_pages));
  std::shared_ptr<Memory> memory(new Memory(std::move(device), std::move(config), shard));
  memory->regions_.resize(memory->plan().regions.size());
  return memory;
}

Result<std::shared_ptr<Memory>> Memory::create(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard) {
  auto made = start(std::move(device), std::move(config), shard);
  if (!made.ok()) return made;
  Memory& memory = **made;
  memory.owns_regions_ = true;
  for (size_t i = 0; i < memory.regions_.size(); ++i) {
    const quire_region_info& want = memory.plan().regions[i];
    Region& region = memory.regions_[i];
    void* address = nullptr;
    Status status = allocate_on(*memory.device_, want.bytes, want.alignment, QUIRE_MEM_DEVICE, &address, &region.bytes);
    region.address = static_cast<unsigned char*>(address);
    if (!status.ok()) return status;
  }
  QUIRE_RETURN_IF_ERROR(memory.finish());
  return made;
}

Status Memory::check_binding(const char* name, const quire_region_info& want, const void* address, uint64_t bytes, int32_t device_type,
                             int32_t device_id) const {
  if (bytes < want.bytes) return invalid("%s: %" PRIu64 " bytes, region %u needs %" PRIu64, name, bytes, want.region, want.bytes);
  if (address == nullptr) return invalid("%s: address is NULL", name);
  if (address_of(address) % want.alignment != 0) {
    return invalid("%s: address 0x%" PRIx64 " is not aligned to the %" PRIu64 " bytes of region %u", name, address_of(address),
                   want.alignment, want.region);
  }
  if (bytes > UINT64_MAX - address_of(address))
    return invalid("%s: address 0x%" PRIx64 " plus %" PRIu64 " bytes wraps", name, address_of(address), bytes);
  const quire_device_info& own = device_->info();
  if (device_type != own.device_type || device_id != own.device_id) {
    return invalid("%s: device (%d, %d), the memory's device is (%d, %d)", name, device_type, device_id, own.device_type, own.device_id);
  }
  return {};
}

// Regions never share bytes.
Status Memory::check_apart() const {
  std::vector<uint32_t> order(regions_.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return regions_[a].address < regions_[b].address; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Region& low = regions_[order[i - 1]];
    if (low.address + low.bytes > regions_[order[i]].address) return invalid("regions %u and %u overlap", order[i - 1], order[i]);
  }
  return {};
}

Result<std::shared_ptr<Memory>> Memory::bind(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard,
                                             std::span<const quire_memory_binding> bindings) {
  auto made = start(std::move(device), std::move(config), shard);
  if (!made.ok()) return made;
  Memory& memory = **made;
  const auto& wanted = memory.plan().regions;
  std::vector<bool> seen(wanted.size(), false);
  for (size_t i = 0; i < bindings.size(); ++i) {
    const quire_memory_binding& binding = bindings[i];
    const std::string name = "bindings[" + std::to_string(i) + "]";
    if (binding.region >= wanted.size())
      return invalid("%s.region is %u, the shard has %zu regions", name.c_str(), binding.region, wanted.size());
    if (seen[binding.region]) return invalid("%s: region %u is bound twice", name.c_str(), binding.region);
    const quire_region_info& want = wanted[binding.region];
    QUIRE_RETURN_IF_ERROR(memory.check_binding(name.c_str(), want, binding.address, binding.bytes, binding.device_type, binding.device_id));
    seen[binding.region] = true;
    memory.regions_[binding.region] = {static_cast<unsigned char*>(binding.address), want.bytes};
  }
  for (size_t i = 0; i < seen.size(); ++i) {
    if (!seen[i]) return invalid("bindings: region %zu of %zu is missing", i, seen.size());
  }
  QUIRE_RETURN_IF_ERROR(memory.check_apart());
  QUIRE_RETURN_IF_ERROR(memory.finish());
  return made;
}

Result<std::shared_ptr<Memory>> Memory::bind_dlpack(std::shared_ptr<Device> device, std::shared_ptr<const Config> config, uint32_t shard,
                                                    std::span<const quire_dlpack> tensors) {
  auto made = start(std::move(device), std::move(config), shard);
  if (!made.ok()) return made;
  Memory& memory = **made;
  const auto& wanted = memory.plan().regions;
  if (tensors.size() != wanted.size()) return invalid("n is %zu tensors, the shard has %zu regions", tensors.size(), wanted.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const std::string name = "tensors[" + std::to_string(i) + "]";
    auto bytes = inspect_dlpack(tensors[i], name.c_str());
    if (!bytes.ok()) return bytes.take_status();
    QUIRE_RETURN_IF_ERROR(
        memory.check_binding(name.c_str(), wanted[i], bytes->address, bytes->bytes, bytes->device_type, bytes->device_id));
    memory.regions_[i] = {static_cast<unsigned char*>(bytes->address), wanted[i].bytes};
  }
  memory.tensors_.reserve(tensors.size());
  QUIRE_RETURN_IF_ERROR(memory.check_apart());
  QUIRE_RETURN_IF_ERROR(memory.finish());
  memory.tensors_.assign(tensors.begin(), tensors.end());
  return made;
}

Status Memory::finish() {
  QUIRE_RETURN_IF_ERROR(make_scratch());
  auto stream = Stream::create(device_, 0);
  if (!stream.ok()) return stream.take_status();
  QUIRE_RETURN_IF_ERROR(fill_page(**stream, 0, 0));
  return (*stream)->synchronize(-1);
}

Memory::~Memory() {
  for (Batch& batch : batches_) {
    if (batch.event == nullptr) continue;
    quire_error error = empty_error();
    // The runs of a lent batch are read until then; a failure leaves nothing to wait for.
    if (batch.lent) static_cast<void>(device_->api().event_synchronize(batch.event, -1, &error));
    device_->api().event_destroy(batch.event);
  }
  if (owns_regions_) {
    for (const Region& region : regions_) {
      if (region.address != nullptr) device_->api().mem_free(device_->get(), region.address, region.bytes, QUIRE_MEM_DEVICE);
    }
  }
  for (const quire_dlpack& tensor : tensors_) release_dlpack(tensor);
}

Status Memory::region(uint32_t index, void** address, uint64_t* bytes) const {
  if (index >= regions_.size()) return fail(QUIRE_OUT_OF_RANGE, "region %u: the memory has %zu", index, regions_.size());
  *address = regions_[index].address;
  *bytes = regions_[index].bytes;
  return {};
}

}  // namespace quire
