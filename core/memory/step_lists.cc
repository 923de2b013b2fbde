// The zeroes and copies of a step, and poison: what is queued on a stream.
#include <algorithm>
#include <cinttypes>

#include "core/layout/segments.h"
#include "core/memory/shard_memory.h"

namespace quire {
namespace {

quire_error empty_error() {
  quire_error error{};
  error.struct_size = sizeof error;
  return error;
}

constexpr uint32_t kWholePage = 0xffffffffu;  // quire_zero.group

// One thread writes at a time, others read.
void add(std::atomic<uint64_t>* count, uint64_t n) { count->store(count->load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }

}  // namespace

// Everything that a step needs is allocated here; drivers without events are waited for instead.
Status Memory::make_scratch() {
  for (Batch& batch : batches_) {
    batch.runs.reserve(kBatchRuns);
    quire_error error = empty_error();
    const quire_code code = device_->api().event_create(device_->get(), &batch.event, &error);
    if (code != QUIRE_OK) batch.event = nullptr;
    if (code == QUIRE_UNIMPLEMENTED) continue;
    if (code != QUIRE_OK) return device_->driver().status(code, error);
    has_events_ = true;
  }
  size_t most = 0;
  for (uint32_t group = 0; group < config_->groups.size(); ++group) {
    for (uint32_t column = 0; column < config_->groups[group].ids_per_block; ++column) {
      from_.clear();
      append_runs(group, column, 0, &from_);
      most = std::max(most, from_.size());
    }
  }
  from_.clear();
  from_.reserve(most);
  to_.reserve(most);
  return {};
}

Status Memory::check_stream(const Stream& stream) const {
  const Device& other = stream.device();
  if (&other == device_.get()) return {};
  if (other.driver().instance() == device_->driver().instance() && other.info().device_id == device_->info().device_id) return {};
  return invalid("stream belongs to device (%d, %d) of driver %s, the memory to (%d, %d) of driver %s", other.info().device_type,
                 other.info().device_id, other.driver().name().c_str(), device_->info().device_type, device_->info().device_id,
                 device_->driver().name().c_str());
}

Status Memory::fill_page(const Stream& stream, uint64_t page, uint8_t byte) const {
  for (size_t i = 0; i < regions_.size(); ++i) {
    const quire_region_info& info = plan().regions[i];
    const uint64_t plane_bytes = info.page_stride * config_->num_pages;
    for (uint64_t plane = 0; plane < info.num_planes; ++plane) {
      unsigned char* strip = regions_[i].address + plane * plane_bytes + page * info.page_stride;
      QUIRE_RETURN_IF_ERROR(stream.fill(strip, byte, info.page_stride));
    }
  }
  return {};
}

Status Memory::poison(const Stream& stream, uint8_t byte) const {
  if (config_ == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "memory belongs to a tensor and has no pages");
  QUIRE_RETURN_IF_ERROR(check_stream(stream));
  for (size_t i = 0; i < regions_.size(); ++i) {
    const quire_region_info& info = plan().regions[i];
    const uint64_t plane_bytes = info.page_stride * config_->num_pages;
    const uint64_t used = plane_bytes * info.num_planes;
    for (uint64_t plane = 0; plane < info.num_planes; ++plane) {
      unsigned char* pages = regions_[i].address + plane * plane_bytes + info.page_stride;
      QUIRE_RETURN_IF_ERROR(stream.fill(pages, byte, plane_bytes - info.page_stride));
    }
    QUIRE_RETURN_IF_ERROR(stream.fill(regions_[i].address + used, byte, regions_[i].bytes - used));
  }
  return {};
}

Status Memory::check_id(const char* what, uint32_t group, uint32_t column, int32_t id) const {
  if (group >= config_->groups.size()) return fail(QUIRE_OUT_OF_RANGE, "%s: group %u of %zu", what, group, config_->groups.size());
  const GroupPlan& plan = config_->groups[group];
  if (column >= plan.ids_per_block)
    return fail(QUIRE_OUT_OF_RANGE, "%s: column %u of %u in group %u", what, column, plan.ids_per_block, group);
  const uint64_t ids = config_->num_pages * plan.parts_per_page;
  if (id < 0 || static_cast<uint64_t>(id) >= ids) {
    return fail(QUIRE_OUT_OF_RANGE, "%s: id %d is outside [0, %" PRIu64 ") of group %u", what, id, ids, group);
  }
  return {};
}

void Memory::append_runs(uint32_t group, uint32_t column, int32_t id, std::vector<quire_segment>* runs) const {
  for (const uint32_t index : config_->groups[group].places) {
    const CachePlace& place = config_->places[index];
    if (place.column != column) continue;
    append_segments(plan().views[index], plan().lowering[group], place.layer, id, runs);
  }
}

Status Memory::zero(const quire_zero& item, const Stream& stream) {
  if (item.group == kWholePage) {
    for (const quire_region_info& info : plan().regions) add(&zeroed_bytes_, info.page_stride * info.num_planes);
    return fill_page(stream, static_cast<uint64_t>(item.id), 0);
  }
  to_.clear();
  append_runs(item.group, item.column, item.id, &to_);
  for (const quire_segment& run : to_) {
    QUIRE_RETURN_IF_ERROR(stream.fill(regions_[run.region].address + run.offset, 0, run.bytes));
    add(&zeroed_bytes_, run.bytes);
  }
  return {};
}

Status Memory::take_back(Batch* batch, const Stream& stream) {
  if (batch->lent) {
    quire_error error = empty_error();
    const quire_code code = device_->api().event_synchronize(batch->event, -1, &error);
    if (code != QUIRE_OK) return stream.device().driver().status(code, error);
    batch->lent = false;
  }
  batch->runs.clear();
  return {};
}

Status Memory::flush(const Stream& stream) {
  Batch& batch = batches_[next_batch_];
  if (batch.runs.empty()) return {};
  QUIRE_RETURN_IF_ERROR(stream.copy(batch.runs.data(), batch.runs.size()));
  if (has_events_) {
    quire_error error = empty_error();
    const quire_code code = device_->api().event_record(batch.event, stream.get(), &error);
    if (code != QUIRE_OK) return stream.device().driver().status(code, error);
    batch.lent = true;
  } else {
    QUIRE_RETURN_IF_ERROR(stream.synchronize(-1));
  }
  next_batch_ = (next_batch_ + 1) % kBatches;
  return take_back(&batches_[next_batch_], stream);
}

Status Memory::add_run(const Stream& stream, uint64_t source, uint64_t destination, uint64_t bytes) {
  auto& runs = batches_[next_batch_].runs;
  if (!runs.empty() && runs.back().source + runs.back().bytes == source && runs.back().destination + runs.back().bytes == destination) {
    runs.back().bytes += bytes;
    return {};
  }
  if (runs.size() < kBatchRuns) {
    runs.push_back({source, destination, bytes});
    return {};
  }
  QUIRE_RETURN_IF_ERROR(flush(stream));
  batches_[next_batch_].runs.push_back({source, destination, bytes});
  return {};
}

// The same part of two ids has the same runs in the same order.
Status Memory::copy(const quire_copy& item, const Stream& stream) {
  from_.clear();
  to_.clear();
  append_runs(item.group, item.column, item.source, &from_);
  append_runs(item.group, item.column, item.destination, &to_);
  if (from_.size() != to_.size()) {
    return fail(QUIRE_INTERNAL, "ids %d and %d of group %u have %zu and %zu runs", item.source, item.destination, item.group, from_.size(),
                to_.size());
  }
  for (size_t i = 0; i < from_.size(); ++i) {
    const auto source = reinterpret_cast<uint64_t>(regions_[from_[i].region].address + from_[i].offset);
    const auto destination = reinterpret_cast<uint64_t>(regions_[to_[i].region].address + to_[i].offset);
    QUIRE_RETURN_IF_ERROR(add_run(stream, source, destination, from_[i].bytes));
    add(&copied_bytes_, from_[i].bytes);
  }
  return {};
}

Status Memory::prepare_step(std::span<const quire_copy> copies, std::span<const quire_zero> zeroes, const Stream& stream) {
  if (config_ == nullptr) return fail(QUIRE_FAILED_PRECONDITION, "memory belongs to a tensor and has no pages");
  QUIRE_RETURN_IF_ERROR(check_stream(stream));
  for (const quire_zero& item : zeroes) {
    if (item.group != kWholePage) {
      QUIRE_RETURN_IF_ERROR(check_id("zero", item.group, item.column, item.id));
    } else if (item.id <= 0 || static_cast<uint64_t>(item.id) >= config_->num_pages) {
      return fail(QUIRE_OUT_OF_RANGE, "zero: page %d is outside [1, %" PRIu64 ")", item.id, config_->num_pages);
    }
  }
  for (const quire_copy& item : copies) {
    QUIRE_RETURN_IF_ERROR(check_id("copy source", item.group, item.column, item.source));
    QUIRE_RETURN_IF_ERROR(check_id("copy destination", item.group, item.column, item.destination));
  }
  QUIRE_RETURN_IF_ERROR(take_back(&batches_[next_batch_], stream));
  for (const quire_zero& item : zeroes) QUIRE_RETURN_IF_ERROR(zero(item, stream));
  for (const quire_copy& item : copies) QUIRE_RETURN_IF_ERROR(copy(item, stream));
  QUIRE_RETURN_IF_ERROR(flush(stream));
  add(&prepared_steps_, 1);
  return {};
}

Memory::Counts Memory::counts() const {
  const auto of = [](const std::atomic<uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  return {of(prepared_steps_), of(zeroed_bytes_), of(copied_bytes_)};
}

uint64_t Memory::num_bytes() const {
  uint64_t bytes = 0;
  for (const Region& region : regions_) bytes += region.bytes;
  return bytes;
}

}  // namespace quire
