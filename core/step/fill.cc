// A step's tables, slots and lists, written into the caller's memory; and the step as bytes.
#include <mutex>

#include "core/step/filling.h"
#include "core/step/live_step.h"
#include "core/step/step_bytes.h"

namespace quire {

int32_t Cache::Impl::LiveStep::id_before(const Row& row, std::span<const int32_t> table, uint32_t group, uint32_t column,
                                         uint64_t block) const {
  for (uint32_t i = step_number + 1; i < m.num_steps; ++i) {
    for (const Replaced& r : m.step_at(i).replaced) {
      if (r.block != block || r.group != group || m.step_at(i).rows[r.row].sequence != row.sequence) continue;
      PartIndex part = r.old_head;
      for (uint32_t c = 0; c < column; ++c) part = m.pool.next_in_block(part);
      return m.pool.id_of(GroupId(group), part).value;
    }
  }
  return table[block];
}

Status Cache::step_fill(StepId id, std::span<const quire_fill> fills, uint64_t* written) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  return fill_step(Impl::LiveStep{*impl_, number, *step}, fills, written);
}

Status Cache::step_export(StepId id, std::span<uint8_t> bytes, uint64_t* size) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  const Impl::LiveStep live{*impl_, number, *step};
  const StepLists lists{id, impl_->of_plan, step->copies, step->zeroes};
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
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  info->num_rows = static_cast<uint32_t>(step->rows.size());
  info->num_tokens = step->num_tokens;
  info->num_copies = step->copies.size();
  info->num_zeroes = step->zeroes.size();
  return {};
}

Result<std::span<const quire_copy>> Cache::step_copies(StepId id) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  return std::span<const quire_copy>(step->copies);
}

Result<std::span<const quire_zero>> Cache::step_zeroes(StepId id) {
  std::shared_lock lock(impl_->mutex);
  uint32_t number = 0;
  const Step* step = impl_->step_of(id, &number);
  if (step == nullptr) return fail(QUIRE_NOT_FOUND, "step: %llu is not in flight", static_cast<unsigned long long>(id.value));
  return std::span<const quire_zero>(step->zeroes);
}

}  // namespace quire
