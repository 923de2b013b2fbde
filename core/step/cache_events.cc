// Events of a cache: the calls that hand them out. What is recorded, and how, is core/events.
#include <mutex>

#include <algorithm>

#include "core/step/cache_impl.h"

namespace quire {

Status Cache::enable_events(const quire_event_options& options, std::span<const std::string> kinds) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (m.events.enabled()) return fail(QUIRE_ALREADY_EXISTS, "events are recorded already");
  const uint64_t cached = m.pool.counts().cached_parts;
  if (m.sequences.num_live() > 0 || cached > 0) {
    return fail(QUIRE_FAILED_PRECONDITION, "%u sequences are live and %llu parts cached: enable events first", m.sequences.num_live(),
                static_cast<unsigned long long>(cached));
  }
  auto log = m.events.make_log(options, kinds);
  if (!log.ok()) return log.take_status();
  m.media.name_all(&(*log)->names);
  m.events.start(std::move(*log));
  return {};
}

Status Cache::name_media(quire_symbol first, std::string_view identifier, int64_t placeholder) {
  std::unique_lock lock(impl_->mutex);
  Impl& m = *impl_;
  if (!m.events.enabled()) return fail(QUIRE_FAILED_PRECONDITION, "events are not recorded");
  const Media::Item* item = m.media.find(first);
  if (item == nullptr) return fail(QUIRE_NOT_FOUND, "first: %u is not the first symbol of a media item", first);
  m.events.names().name_media(first, item->length, std::string(identifier), placeholder);
  return {};
}

Status Cache::read_events(uint64_t from, std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const {
  return impl_->events.read(from, out, data, batch);
}

Status Cache::snapshot_events(std::span<quire_event> out, std::span<uint8_t> data, quire_event_batch* batch) const {
  std::shared_lock lock(impl_->mutex);
  return impl_->events.snapshot(out, data, batch);
}

void Cache::describe_hold(quire_hold_id hold, uint32_t group, uint64_t first, uint64_t end, uint64_t most_bytes,
                          std::vector<EventRecord>* out) const {
  std::shared_lock lock(impl_->mutex);
  const Impl& m = *impl_;
  quire_hold_info info{};
  std::span<const PartIndex> heads = m.holds.heads(hold, group);
  const GroupPlan& plan = m.facts.config->groups[group];
  if (!m.holds.info(hold, &info).ok()) return;
  if (!plan.is_state()) {
    const uint64_t begin = info.first_token / plan.block_tokens;
    const uint64_t from = std::min<uint64_t>(first - std::min(first, begin), heads.size());
    const uint64_t to = std::min<uint64_t>(end - std::min(end, begin), heads.size());
    if (from >= to) return;
    heads = heads.subspan(from, to - from);
  }
  m.events.describe(group, heads, most_bytes, out);
}

}  // namespace quire
