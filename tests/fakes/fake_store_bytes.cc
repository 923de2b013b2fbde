// What a store does with bytes when a ticket ends.
#include <algorithm>
#include <cstring>

#include "tests/fakes/fake_store_impl.h"

namespace quire::test {
namespace {

constexpr size_t kOfferKeyBytes = 48;

// Calls visit(address, offset in the object, bytes) for every piece of a ticket; stops when it answers false.
template <typename Visit>
void each_piece(const StoreTicket& ticket, Visit visit) {
  for (const quire_ticket_run& run : ticket.runs) {
    for (uint64_t i = 0; i < run.count; ++i) {
      const uint64_t address = run.address + i * static_cast<uint64_t>(run.stride);
      const uint64_t offset = run.object_offset + i * static_cast<uint64_t>(run.object_stride);
      if (!visit(reinterpret_cast<uint8_t*>(address), offset, run.bytes)) return;
    }
  }
}

uint64_t mix(uint64_t sum, uint64_t word) {
  sum = (sum ^ word) * 0x9E3779B97F4A7C15U;
  return sum ^ (sum >> 29);
}

void flip_one(uint8_t* byte, uint64_t random) { *byte ^= static_cast<uint8_t>(1U << (random % 8)); }

}  // namespace

uint64_t FakeStore::Impl::sum_of(const StoreTicket& ticket) {
  uint64_t sum = 0;
  each_piece(ticket, [&](const uint8_t* address, uint64_t, uint64_t bytes) {
    uint64_t word = 0;
    for (; bytes >= sizeof word; bytes -= sizeof word, address += sizeof word) {
      std::memcpy(&word, address, sizeof word);
      sum = mix(sum, word);
    }
    word = bytes;
    std::memcpy(&word, address, bytes);
    sum = mix(sum, word);
    return true;
  });
  return sum;
}

void FakeStore::Impl::check_untouched(const StoreTicket& ticket) {
  if (ticket.runs.empty() || sum_of(ticket) == ticket.sum) return;
  const std::string name = std::to_string(ticket.ticket.ticket);
  violate(ticket.ticket.kind == QUIRE_TICKET_STORE ? "the bytes of store " + name + " changed before it ended"
                                                   : "the bytes of load " + name + " were written before it ended");
}

bool FakeStore::Impl::make_room(uint64_t bytes, int64_t now) {
  if (options.capacity_bytes == 0) return true;
  if (bytes > options.capacity_bytes) return false;
  while (options.evicts && used_bytes + bytes > options.capacity_bytes) {
    auto oldest = objects.end();
    for (auto each = objects.begin(); each != objects.end(); ++each) {
      if (each->second.leased_until_ns > now) continue;
      if (oldest == objects.end() || each->second.used < oldest->second.used) oldest = each;
    }
    if (oldest == objects.end()) return false;
    drop(oldest);
    ++counts.evicted;
  }
  return used_bytes + bytes <= options.capacity_bytes;
}

const StoredObject* FakeStore::Impl::another(const std::string& key) {
  const uint64_t others = objects.size() - objects.count(key);
  if (others == 0) return nullptr;
  uint64_t skip = random() % others;
  for (const auto& each : objects) {
    if (each.first != key && skip-- == 0) return &each.second;
  }
  return nullptr;
}

void FakeStore::Impl::damage_stored(const StoreTicket& ticket, std::vector<uint8_t>* bytes) {
  ++counts.damaged;
  if (ticket.fate.damage == Damage::kFlip) {
    const uint64_t r = random();
    flip_one(&(*bytes)[r / 8 % bytes->size()], r);
  } else if (ticket.fate.damage == Damage::kShort) {
    bytes->resize(bytes->size() / 2);
  } else if (ticket.fate.damage == Damage::kForeign) {
    if (const StoredObject* other = another(ticket.keys[0])) *bytes = other->bytes;
  }
}

bool FakeStore::Impl::is_offer(const StoreTicket& ticket) const {
  return options.offers && ticket.ticket.kind == QUIRE_TICKET_STORE && ticket.keys[0].size() == kOfferKeyBytes;
}

// The object; of an offer as its bytes are now. NULL: there is none.
StoredObject* FakeStore::Impl::find(const std::string& key) {
  if (const auto found = objects.find(key); found != objects.end()) return &found->second;
  if (!options.offers || key.size() <= kOfferKeyBytes) return nullptr;
  last_address = key.substr(kOfferKeyBytes);
  for (const StoreInstance* instance : instances) {
    for (const auto& each : instance->tickets) {
      const StoreTicket& ticket = each.second;
      if (!is_offer(ticket) || key.compare(0, kOfferKeyBytes, ticket.keys[0]) != 0) continue;
      offered.bytes.resize(ticket.ticket.object_bytes);
      each_piece(ticket, [&](const uint8_t* address, uint64_t offset, uint64_t n) {
        std::memcpy(&offered.bytes[offset], address, n);
        return true;
      });
      return &offered;
    }
  }
  return nullptr;
}

// Those of the handle, if there are some.
void FakeStore::Impl::end_offers(StoreTicket* ticket, quire_completion* end) {
  constexpr size_t kName = 32;
  const std::string handle = ticket->keys[0].substr(kName, kOfferKeyBytes - kName);
  end->code = QUIRE_NOT_FOUND;
  for (StoreInstance* instance : instances) {
    for (auto& each : instance->tickets) {
      if (!is_offer(each.second) || each.second.keys[0].compare(kName, std::string::npos, handle) != 0) continue;
      each.second.fate.held = false;
      end->code = QUIRE_OK;
    }
  }
}

void FakeStore::Impl::store(StoreInstance* instance, StoreTicket* ticket, quire_completion* end) {
  const std::string& key = ticket->keys[0];
  if (is_offer(*ticket)) {
    end->bytes = ticket->bytes;
    return;
  }
  if (const auto found = objects.find(key); found != objects.end()) {
    found->second.used = ++last_use;
    end->flags = QUIRE_COMPLETION_EXISTED;
    ++counts.existed;
    return;
  }
  if (state == QUIRE_CONNECTOR_READ_ONLY) end->code = QUIRE_PERMISSION_DENIED;
  if (state == QUIRE_CONNECTOR_FULL) end->code = QUIRE_RESOURCE_EXHAUSTED;
  if (end->code != QUIRE_OK) return;
  std::vector<uint8_t> bytes(ticket->ticket.object_bytes);
  each_piece(*ticket, [&](const uint8_t* address, uint64_t offset, uint64_t n) {
    std::memcpy(&bytes[offset], address, n);
    return true;
  });
  end->bytes = ticket->bytes;
  if (ticket->fate.damage != Damage::kNone) damage_stored(*ticket, &bytes);
  if (ticket->fate.damage == Damage::kLost) return;
  if (!make_room(bytes.size(), instance->now())) {
    end->code = QUIRE_RESOURCE_EXHAUSTED;
    end->bytes = 0;
    return;
  }
  counts.bytes_stored += end->bytes;
  keep(key, std::move(bytes));
}

void FakeStore::Impl::load(StoreTicket* ticket, quire_completion* end) {
  StoredObject* const found = find(ticket->keys[0]);
  const Damage damage = ticket->fate.damage;
  if (damage != Damage::kNone) ++counts.damaged;
  if (found == nullptr || damage == Damage::kLost) {
    end->code = QUIRE_NOT_FOUND;
    return;
  }
  found->used = ++last_use;
  const StoredObject* object = found;
  if (damage == Damage::kForeign) {
    if (const StoredObject* other = another(ticket->keys[0])) object = other;
  }
  const std::vector<uint8_t>& from = object->bytes;
  each_piece(*ticket, [&](const uint8_t*, uint64_t offset, uint64_t n) {
    if (offset <= from.size() && n <= from.size() - offset) return true;
    end->code = QUIRE_OUT_OF_RANGE;
    return false;
  });
  if (end->code != QUIRE_OK) return;
  const uint64_t most = damage == Damage::kShort ? ticket->bytes / 2 : ticket->bytes;
  uint8_t* last = nullptr;
  each_piece(*ticket, [&](uint8_t* address, uint64_t offset, uint64_t n) {
    n = std::min(n, most - end->bytes);
    std::memcpy(address, &from[offset], n);
    if (n != 0) last = address + n - 1;
    end->bytes += n;
    return end->bytes < most;
  });
  if (damage == Damage::kFlip && last != nullptr) flip_one(last, random());
  counts.bytes_loaded += end->bytes;
}

void FakeStore::Impl::look_up(StoreInstance* instance, StoreTicket* ticket, quire_completion* end) {
  const quire_ticket& t = ticket->ticket;
  const bool leases = options.leases && t.lease_ns > 0;
  const int64_t until = instance->now() + t.lease_ns;
  for (uint32_t k = 0; k < t.num_keys; ++k) {
    StoredObject* const found = find(ticket->keys[k]);
    t.sizes[k] = found == nullptr ? 0 : found->bytes.size();
    if (found == nullptr) continue;
    ++end->num_found;
    found->used = ++last_use;
    if (leases) found->leased_until_ns = std::max(found->leased_until_ns, until);
  }
  if (leases) end->flags = QUIRE_COMPLETION_LEASED;
  counts.keys_looked_up += t.num_keys;
  counts.keys_found += end->num_found;
}

// Of a ticket that fails.
void FakeStore::Impl::move_part(StoreTicket* ticket, quire_completion* end) {
  end->code = ticket->fate.code;
  const uint64_t most = std::min(ticket->fate.moved, ticket->bytes);
  if (most == 0) return;
  const auto found = objects.find(ticket->keys[0]);
  std::vector<uint8_t> torn;
  each_piece(*ticket, [&](uint8_t* address, uint64_t offset, uint64_t n) {
    n = std::min(n, most - end->bytes);
    if (ticket->ticket.kind == QUIRE_TICKET_STORE) torn.insert(torn.end(), address, address + n);
    if (ticket->ticket.kind == QUIRE_TICKET_LOAD) {
      if (found == objects.end() || offset > found->second.bytes.size() || n > found->second.bytes.size() - offset) return false;
      std::memcpy(address, &found->second.bytes[offset], n);
    }
    end->bytes += n;
    return end->bytes < most;
  });
  if (!torn.empty() && found == objects.end()) keep(ticket->keys[0], std::move(torn));
}

quire_completion FakeStore::Impl::finish(StoreInstance* instance, StoreTicket* ticket) {
  quire_completion end{};
  if (ticket->fate.code != QUIRE_OK) {
    move_part(ticket, &end);
  } else if (ticket->ticket.kind == QUIRE_TICKET_STORE) {
    store(instance, ticket, &end);
  } else if (ticket->ticket.kind == QUIRE_TICKET_LOAD) {
    load(ticket, &end);
  } else if (ticket->ticket.kind == QUIRE_TICKET_LOOKUP) {
    look_up(instance, ticket, &end);
  } else if (options.offers && ticket->keys[0].size() > kOfferKeyBytes) {
    end_offers(ticket, &end);
  } else {
    const auto found = objects.find(ticket->keys[0]);
    if (found == objects.end()) end.code = QUIRE_NOT_FOUND;
    if (state == QUIRE_CONNECTOR_READ_ONLY) end.code = QUIRE_PERMISSION_DENIED;
    if (end.code == QUIRE_OK) drop(found);
  }
  return end;
}

}  // namespace quire::test
