// Blocks that the engine wants forgotten, by id: their bytes turned out to be bad, or another one has to serve them.
#include <algorithm>
#include <mutex>

#include "core/step/cache_impl.h"

namespace quire {

Status Cache::forget_blocks(uint32_t group, std::span<const int32_t> ids, uint64_t* forgotten) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (group >= m.facts.num_groups) return fail(QUIRE_OUT_OF_RANGE, "group: %u of %u", group, m.facts.num_groups);
  const uint64_t most = m.pool.num_pages() * m.facts.plan(group).parts_per_page;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<uint64_t>(ids[i]) < most) continue;
    return fail(QUIRE_OUT_OF_RANGE, "ids[%zu]: %d, group %u has ids below %llu", i, ids[i], group, static_cast<unsigned long long>(most));
  }
  m.units.give_up_waiting();  // a report of what is forgotten now would bring it back
  const uint64_t before = m.published.num_evicted();
  for (int32_t id : ids) {
    const PartIndex part = m.pool.index_of(GroupId(group), PartId(id));
    if (id == 0 || m.pool.group_of(m.pool.page_of(part)).value != group) continue;
    const PartIndex head = m.pool.head_of(part);
    if (head.value == kNone || (m.pool.node(head).value != kNone && m.index.is_stale(m.pool.node(head)))) continue;
    m.publishing.silence_users(group, head);
    if (m.pool.node(head).value != kNone) m.published.forget(m.pool.node(head), GroupId(group), true);
  }
  m.pins.drop_forgotten();
  *forgotten = m.published.num_evicted() - before;
  return {};
}

}  // namespace quire
