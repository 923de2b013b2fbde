#include "plugins/ucx/ucx_offers.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace quire::ucx {

ObjectRef Offers::find(const ObjectKey& key, int64_t now) {
  ObjectRef found;
  const auto [first, last] = names_.equal_range(key.name);
  for (auto at = first; at != last; ++at) {
    const ObjectRef& object = at->second;
    const bool is_over = object->is_offer() && object->lease_end <= now;
    if (equal_handles(object->key.handle, key.handle) && !is_over) found = object;
  }
  return found;
}

Offers::Put Offers::offer(const ObjectKey& key, std::span<const quire_ticket_run> runs, uint64_t bytes, uint64_t ticket, int64_t now) {
  expire(now);
  if (find(key, now) != nullptr) return Put::kExisted;
  auto object = std::make_shared<Object>();
  object->key = key;
  object->bytes = bytes;
  object->ticket = ticket;
  object->pieces.emplace(runs);
  object->lease_end = now + lease_ns_;
  by_ticket_.emplace(ticket, object);
  try {
    ends_.reserve(ends_.size() + by_ticket_.size());  // ends cannot fail
    leases_.insert({object->lease_end, object.get()});
    names_.emplace(key.name, object);
  } catch (const std::bad_alloc&) {
    leases_.erase({object->lease_end, object.get()});
    by_ticket_.erase(ticket);
    throw;
  }
  used_bytes_ += bytes;
  return Put::kTaken;
}

Offers::Put Offers::copy(const ObjectKey& key, std::span<const quire_ticket_run> runs, uint64_t bytes, int64_t now) {
  if (const ObjectRef there = find(key, now); there != nullptr) {
    touch(there);
    return Put::kExisted;
  }
  if (bytes > copies_bytes_ || bytes + kCopyOverhead > copies_bytes_ || !make_room(bytes + kCopyOverhead, now)) return Put::kNoRoom;
  auto object = std::make_shared<Object>();
  object->key = key;
  object->bytes = bytes;
  object->memory.reset(new uint8_t[bytes]);
  plugins::Pieces(runs).gather(0, bytes, object->memory.get());
  object->place = copies_.insert(copies_.end(), object);
  try {
    names_.emplace(key.name, object);
  } catch (const std::bad_alloc&) {
    copies_.erase(object->place);
    throw;
  }
  used_bytes_ += bytes + kCopyOverhead;
  return Put::kTaken;
}

// The oldest copies leave that nobody has a lease on. Those that are being read keep their memory until that ends; so they do not count.
bool Offers::make_room(uint64_t bytes, int64_t now) {
  uint64_t free = copies_bytes_ - used_bytes_;
  std::vector<ObjectRef> leaving;
  for (auto at = copies_.begin(); at != copies_.end() && free < bytes; ++at) {
    if ((*at)->lease_end > now || (*at)->uses != 0) continue;
    leaving.push_back(*at);
    free += (*at)->bytes + kCopyOverhead;
  }
  if (free < bytes) return false;
  for (const ObjectRef& object : leaving) remove(object, QUIRE_OK);
  num_evicted_ += leaving.size();
  return true;
}

void Offers::touch(const ObjectRef& object) {
  if (!object->is_offer() && !object->is_gone) copies_.splice(copies_.end(), copies_, object->place);
}

void Offers::renew(const ObjectRef& object, int64_t until) {
  if (object->is_gone || until <= object->lease_end) return;
  if (!object->is_offer()) {
    object->lease_end = until;
    return;
  }
  auto node = leases_.extract({object->lease_end, object.get()});
  object->lease_end = until;
  node.value() = {until, object.get()};
  leases_.insert(std::move(node));
}

void Offers::end_use(const ObjectRef& object) {
  --object->uses;
  end_if_unused(object);
}

void Offers::remove(const ObjectRef& object, quire_code code) {
  if (object->is_gone) return;
  object->is_gone = true;
  object->code = code;
  const auto [first, last] = names_.equal_range(object->key.name);
  names_.erase(std::find_if(first, last, [&](const auto& entry) { return entry.second == object; }));
  if (object->is_offer()) {
    leases_.erase({object->lease_end, object.get()});
  } else {
    copies_.erase(object->place);
  }
  end_if_unused(object);
}

bool Offers::remove_all(const Handle& handle, quire_code code) {
  std::vector<ObjectRef> found;
  for (const auto& [lease_end, object] : leases_) {
    if (equal_handles(object->key.handle, handle)) found.push_back(by_ticket_.at(object->ticket));
  }
  for (const ObjectRef& object : found) remove(object, code);
  return !found.empty();
}

// The bytes of one that is gone count until nothing reads them.
void Offers::end_if_unused(const ObjectRef& object) {
  if (!object->is_gone || object->uses != 0) return;
  used_bytes_ -= object->bytes + (object->is_offer() ? 0 : kCopyOverhead);
  if (!object->is_offer()) return;
  ends_.push_back({object->ticket, object->code, object->code == QUIRE_OK ? object->bytes : 0});
  by_ticket_.erase(object->ticket);
}

ObjectRef Offers::of_ticket(uint64_t ticket) const {
  const auto found = by_ticket_.find(ticket);
  return found != by_ticket_.end() ? found->second : nullptr;
}

int64_t Offers::expire(int64_t now) {
  while (!leases_.empty() && leases_.begin()->first <= now) remove(by_ticket_.at(leases_.begin()->second->ticket), QUIRE_OK);
  return leases_.empty() ? INT64_MAX : leases_.begin()->first;
}

bool Offers::collect(const Object& object, const Range& range, size_t most, std::vector<plugins::Extent>* out) {
  if (object.is_offer()) {
    std::vector<plugins::Extent> own;  // which is sorted, and `out` is not
    if (!object.pieces->collect(range.offset, range.offset + range.bytes, most - out->size(), &own)) return false;
    out->insert(out->end(), own.begin(), own.end());
    return true;
  }
  if (out->size() == most) return false;
  out->push_back({range.offset, range.bytes, object.memory.get() + range.offset});
  return true;
}

void Offers::gather(const Object& object, const Range& range, uint8_t* to) {
  if (object.is_offer()) return object.pieces->gather(range.offset, range.offset + range.bytes, to);
  std::memcpy(to, object.memory.get() + range.offset, range.bytes);
}

}  // namespace quire::ucx
