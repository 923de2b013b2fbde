#include "tests/stamps/onlookers.h"

#include <algorithm>

#include "tests/stamps/ledger.h"

namespace quire::stamps {
namespace {

constexpr size_t kEvents = 512;
constexpr size_t kWords = 1 << 16;

}  // namespace

EventView::EventView(quire_cache* cache) : cache_(cache), events_(kEvents), data_(kWords) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_event_options options = QUIRE_INIT(quire_event_options);
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.ring_bytes = 4 << 20;
  must_call(quire_cache_enable_events(cache, &options, &err), err, "events");
}

void EventView::apply(const quire_event& event, std::set<Name>* names) const {
  if (event.type == QUIRE_EVENT_CLEARED) return names->clear();
  const char* digests = reinterpret_cast<const char*>(data_.data()) + event.hashes_offset;
  for (uint32_t i = 0; i < event.num_hashes; ++i) {
    Name name(event.group, std::string(digests + size_t{i} * event.hash_bytes, event.hash_bytes));
    if (event.type == QUIRE_EVENT_STORED) {
      demand(names->insert(std::move(name)).second, "events: a name is stored that is there already");
    } else {
      demand(names->erase(name) == 1, "events: a name is removed that is not there");
    }
  }
}

void EventView::follow() {
  quire_error err = QUIRE_INIT(quire_error);
  quire_event_batch batch = QUIRE_INIT(quire_event_batch);
  do {
    auto* data = reinterpret_cast<uint8_t*>(data_.data());
    const quire_code code = quire_cache_read_events(cache_, next_, events_.data(), events_.size(), data, data_.size() * 8, &batch, &err);
    if (code == QUIRE_DATA_LOSS) {  // one operation made more events than the ring holds: a router starts again from the snapshot
      names_ = snapshot(&next_);
      return;
    }
    must_call(code, err, "read events");
    for (uint64_t i = 0; i < batch.num_events; ++i) {
      demand(events_[i].number == next_ + i, "events: a number is missing");
      apply(events_[i], &names_);
    }
    next_ = batch.next;
  } while (batch.num_events > 0);
}

std::set<EventView::Name> EventView::snapshot(uint64_t* next) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_event_batch batch = QUIRE_INIT(quire_event_batch);
  while (true) {
    auto* data = reinterpret_cast<uint8_t*>(data_.data());
    const quire_code code = quire_cache_snapshot_events(cache_, events_.data(), events_.size(), data, data_.size() * 8, &batch, &err);
    if (code == QUIRE_OK) break;
    if (code != QUIRE_OUT_OF_RANGE) must_call(code, err, "snapshot");
    events_.resize(batch.num_events + kEvents);
    data_.resize(batch.num_bytes / 8 + kWords);
  }
  std::set<Name> found;
  for (uint64_t i = 0; i < batch.num_events; ++i) apply(events_[i], &found);
  *next = batch.next;
  return found;
}

void EventView::compare() {
  follow();
  uint64_t next = 0;
  const std::set<Name> found = snapshot(&next);
  demand(next == next_, "events: a snapshot ends where the events end");
  demand(found == names_, "events: the view of a router is not the snapshot");
}

FollowedSteps::FollowedSteps(const Plan* plan, const quire_cache_options& options) : plan_(*plan) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_follower* follower = nullptr;
  must_call(quire_follower_create(plan_.config.get(), &options, &follower, &err), err, "follower");
  follower_.reset(follower);
}

void FollowedSteps::compare(const TakenStep& step, Dice& dice) {
  quire_error err = QUIRE_INIT(quire_error);
  uint64_t size = 0;
  (void)quire_step_export(step.step, nullptr, 0, &size, nullptr);
  bytes_.resize(size);
  must_call(quire_step_export(step.step, bytes_.data(), bytes_.size(), &size, &err), err, "export");
  TakenStep taken;
  must_call(quire_follower_import(follower_.get(), bytes_.data(), size, &taken.step, &err), err, "import");
  demand(taken.step.id == step.step.id, "a follower's step has the leader's id");
  take_arrays(plan_, &taken);
  compare_takings(step, taken);
  compare_fills(plan_, taken, dice);
}

std::vector<int32_t> UploadedTables::ask(const TakenStep& step, quire_fill_kind kind) const {
  quire_error err = QUIRE_INIT(quire_error);
  quire_fill fill = QUIRE_INIT(quire_fill);
  fill.kind = kind;
  fill.group = group_;
  uint64_t needed = 0;
  std::vector<int32_t> out(1);
  fill.destination = out.data();
  const quire_code code = quire_step_fill(step.step, &fill, sizeof fill, 1, &needed, &err);
  if (code != QUIRE_OUT_OF_RANGE) must_call(code, err, "size of updates");
  out.assign(std::max<uint64_t>(needed, 1), 0);
  fill.destination = out.data();
  fill.capacity = needed;
  must_call(quire_step_fill(step.step, &fill, sizeof fill, 1, &needed, &err), err, "updates");
  out.resize(needed);
  return out;
}

void UploadedTables::take(const TakenStep& step) {
  lists_[step.step.id] = {ask(step, QUIRE_FILL_UPDATE_INDPTR), ask(step, QUIRE_FILL_UPDATE_FIRST), ask(step, QUIRE_FILL_UPDATE_INDICES)};
}

void UploadedTables::upload(const TakenStep& step) {
  const auto found = lists_.find(step.step.id);
  if (found == lists_.end()) return;
  const auto [indptr, first, changed] = std::move(found->second);
  lists_.erase(found);
  const auto pitch = static_cast<size_t>(indptr.back());
  for (uint32_t c = 0; c < plan_.groups[group_].ids_per_block; ++c) {
    for (size_t r = 0; r < step.rows.size(); ++r) {
      std::vector<int32_t>& table = tables_[{step.rows[r].id, c}];
      const auto n = static_cast<size_t>(indptr[r + 1] - indptr[r]), begin = static_cast<size_t>(first[r]);
      if (table.size() < begin + n) table.resize(begin + n);
      std::copy_n(changed.begin() + static_cast<long>(c * pitch + static_cast<size_t>(indptr[r])), n,
                  table.begin() + static_cast<long>(begin));
      compare(step, r, c, table);
    }
  }
}

// Entries that nothing reads any more may differ.
void UploadedTables::compare(const TakenStep& step, size_t r, uint32_t column, const std::vector<int32_t>& table) const {
  const quire_batch& batch = step.shards[0].batches[group_];
  const quire_group_info& group = plan_.groups[group_];
  const int32_t* shown = batch.table + column * batch.table_column_pitch + r * batch.table_pitch;
  const uint64_t position = step.rows[r].position, length = static_cast<uint64_t>(batch.kv_len[r]);
  uint64_t from = 0;
  if (group.chunk != 0) from = position / group.chunk * group.chunk;
  if (group.window != 0) from = position + 1 > group.window ? position + 1 - group.window : 0;
  if (group.encoder_tokens != 0) from = 0;
  for (uint64_t k = 0; k * group.kernel_block_tokens < length; ++k) {
    const bool read = k * group.kernel_block_tokens < group.sink_tokens || (k + 1) * group.kernel_block_tokens > from;
    if (!read) continue;
    demand(k < table.size() && table[k] == shown[k], "a table made of updates is not the step's");
  }
}

}  // namespace quire::stamps
