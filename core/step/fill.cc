// A step's tables, slots and lists, written into the caller's memory; and the step as bytes.
#include <mutex>

#include "core/step/batch_writer.h"
#include "core/step/cache_impl.h"
#include "core/step/filling.h"
#include "core/step/step_bytes.h"

namespace quire {
namespace {

Status not_in_flight(StepId id) { return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value)); }

}  // namespace

Status Cache::step_fill(StepId id, std::span<const quire_fill> fills, uint64_t* written) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->steps.find_any(id, &number);
  if (step == nullptr) return not_in_flight(id);
  return fill_step(impl_->live_step(number, *step), fills, written);
}

Status Cache::step_batch(StepId id, const quire_batch_options& options, PutBatch put, void* user, uint64_t* bytes) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->steps.find_any(id, &number);
  if (step == nullptr) return not_in_flight(id);
  return write_batch(impl_->live_step(number, *step), options, put, user, bytes);
}

Status Cache::step_export(StepId id, std::span<uint8_t> bytes, uint64_t* size) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->steps.find_any(id, &number);
  if (step == nullptr) return not_in_flight(id);
  const LiveStep live = impl_->live_step(number, *step);
  const StepLists lists{id, impl_->facts.plan_digest, step->copies, step->zeroes};
  ByteWriter measured{std::span<uint8_t>()};
  write_step(live, lists, &measured);
  *size = measured.size();
  if (bytes.data() == nullptr) return {};
  if (bytes.size() < *size) {
    return fail(QUIRE_OUT_OF_RANGE, "capacity: %zu bytes, %llu needed", bytes.size(), static_cast<unsigned long long>(*size));
  }
  ByteWriter writer(bytes.first(*size));
  write_step(live, lists, &writer);
  seal(bytes.first(*size));
  return {};
}

Status Cache::step_info(StepId id, quire_step_info* info) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->steps.find_any(id, &number);
  if (step == nullptr) return not_in_flight(id);
  info->num_rows = static_cast<uint32_t>(step->rows.size());
  info->num_tokens = step->num_tokens;
  info->num_copies = step->copies.size();
  info->num_zeroes = step->zeroes.size();
  return {};
}

Result<std::span<const quire_copy>> Cache::step_copies(StepId id) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->steps.find_any(id, &number);
  if (step == nullptr) return not_in_flight(id);
  return std::span<const quire_copy>(step->copies);
}

Result<std::span<const quire_zero>> Cache::step_zeroes(StepId id) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->steps.find_any(id, &number);
  if (step == nullptr) return not_in_flight(id);
  return std::span<const quire_zero>(step->zeroes);
}

}  // namespace quire
