#include "tests/stamps/onlookers.h"

namespace quire::stamps {
namespace {

constexpr size_t kEvents = 512;
constexpr size_t kWords = 1 << 16;

void must(quire_code code, const quire_error& err, const char* call) {
  if (code != QUIRE_OK) throw Mismatch(std::string(call) + ": " + err.message);
}

}  // namespace

EventView::EventView(quire_cache* cache) : cache_(cache), events_(kEvents), data_(kWords) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_event_options options = QUIRE_INIT(quire_event_options);
  options.algorithm = QUIRE_HASH_SHA256_CBOR;
  options.ring_bytes = 4 << 20;
  must(quire_cache_enable_events(cache, &options, &err), err, "events");
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
    must(quire_cache_read_events(cache_, next_, events_.data(), events_.size(), data, data_.size() * 8, &batch, &err), err, "read events");
    for (uint64_t i = 0; i < batch.num_events; ++i) {
      demand(events_[i].number == next_ + i, "events: a number is missing");
      apply(events_[i], &names_);
    }
    next_ = batch.next;
  } while (batch.num_events > 0);
}

void EventView::compare() {
  follow();
  quire_error err = QUIRE_INIT(quire_error);
  quire_event_batch batch = QUIRE_INIT(quire_event_batch);
  while (true) {
    auto* data = reinterpret_cast<uint8_t*>(data_.data());
    const quire_code code = quire_cache_snapshot_events(cache_, events_.data(), events_.size(), data, data_.size() * 8, &batch, &err);
    if (code == QUIRE_OK) break;
    if (code != QUIRE_OUT_OF_RANGE) must(code, err, "snapshot");
    events_.resize(batch.num_events + kEvents);
    data_.resize(batch.num_bytes / 8 + kWords);
  }
  std::set<Name> found;
  for (uint64_t i = 0; i < batch.num_events; ++i) apply(events_[i], &found);
  demand(batch.next == next_, "events: a snapshot ends where the events end");
  demand(found == names_, "events: the view of a router is not the snapshot");
}

FollowedSteps::FollowedSteps(const Plan* plan, const quire_cache_options& options) : plan_(*plan) {
  quire_error err = QUIRE_INIT(quire_error);
  quire_follower* follower = nullptr;
  must(quire_follower_create(plan_.config.get(), &options, &follower, &err), err, "follower");
  follower_.reset(follower);
}

void FollowedSteps::compare(const TakenStep& step) {
  quire_error err = QUIRE_INIT(quire_error);
  uint64_t size = 0;
  must(quire_step_export(step.step, nullptr, 0, &size, &err) == QUIRE_OUT_OF_RANGE ? QUIRE_OK : QUIRE_OK, err, "size of a step");
  bytes_.resize(size);
  must(quire_step_export(step.step, bytes_.data(), bytes_.size(), &size, &err), err, "export");
  TakenStep taken;
  must(quire_follower_import(follower_.get(), bytes_.data(), size, &taken.step, &err), err, "import");
  demand(taken.step.id == step.step.id, "a follower's step has the leader's id");
  take_arrays(plan_, &taken);
  compare_takings(step, taken);
}

}  // namespace quire::stamps
