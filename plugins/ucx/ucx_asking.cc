#include "plugins/ucx/ucx_asking.h"

#include <algorithm>
#include <utility>

#include "plugins/common/nanoseconds.h"

namespace quire::ucx {
namespace {

using plugins::kMillisecond;
using plugins::kSecond;

constexpr size_t kMostAsked = 256;                    // peers
constexpr uint64_t kStretch = uint64_t{2} << 20;      // bytes of a want
constexpr uint64_t kWindow = uint64_t{32} << 20;      // bytes that a peer owes
constexpr size_t kMostRequests = 128;                 // that a peer owes
constexpr int64_t kGraceOfLoads = 20 * kMillisecond;  // for bytes that nobody wants any more
constexpr int64_t kLongestInterest = int64_t{24} * 3600 * kSecond;
constexpr size_t kMostInterests = 65536;  // of a peer
constexpr uint32_t kSomeLease = 1;        // a look-up asks for one, and the owner says how long

}  // namespace

Asking::Asking(const Config& config, Transport* transport, Finish* finish, const Log* log)
    : config_(config), transport_(*transport), finish_(*finish), log_(*log) {
  std::array<uint8_t, sizeof random_> bytes = {};
  fill_random(bytes);
  for (const uint8_t byte : bytes) random_ = random_ << 8 | byte;
  random_ |= 1;
}

// ---- What peers are asked for ----

AskedPeerRef Asking::peer_at(std::string_view text, const Address* address, int64_t now) {
  const std::string name(text);
  if (const auto found = peers_.find(name); found != peers_.end()) {
    found->second->used = now;
    return found->second;
  }
  const auto parsed = address != nullptr ? std::optional(*address) : parse_address(text);
  if (!parsed) return nullptr;
  if (peers_.size() >= kMostAsked) {
    auto oldest = peers_.end();
    for (auto at = peers_.begin(); at != peers_.end(); ++at) {
      if (at->second->is_idle() && (oldest == peers_.end() || at->second->used < oldest->second->used)) oldest = at;
    }
    if (oldest == peers_.end()) throw std::bad_alloc();
    if (oldest->second->link != nullptr) {
      oldest->second->link->user = nullptr;
      transport_.close(oldest->second->link);
    }
    peers_.erase(oldest);
  }
  auto peer = std::make_shared<AskedPeer>();
  peer->address = *parsed;
  peer->used = now;
  peers_.emplace(name, peer);
  return peer;
}

quire_code Asking::targets_of(const Key& key, int64_t now, std::vector<AskedPeerRef>* out) {
  if (!key.address.empty()) {
    out->push_back(peer_at(key.address, nullptr, now));
    return out->back() != nullptr ? QUIRE_OK : QUIRE_INVALID_ARGUMENT;
  }
  for (const Address& address : config_.peers) out->push_back(peer_at(address.text, &address, now));
  return out->empty() ? QUIRE_NOT_FOUND : QUIRE_OK;
}

quire_code Asking::begin(const TaskRef& task, const Key& key, int64_t now) {
  if (const quire_code code = targets_of(key, now, &task->targets); code != QUIRE_OK) return code;
  tasks_.emplace(task->ticket->fields.ticket, task);
  try {
    ask_next(task, now);
  } catch (const std::bad_alloc&) {
    give_up(task->ticket->fields.ticket, QUIRE_RESOURCE_EXHAUSTED, now);
  }
  return QUIRE_OK;
}

quire_code Asking::load(const TicketRef& ticket, const Key& key, int64_t now) { return begin(std::make_shared<Task>(ticket), key, now); }
quire_code Asking::remove(const TicketRef& ticket, const Key& key, int64_t now) { return begin(std::make_shared<Task>(ticket), key, now); }

// Asks the target whose turn it is.
void Asking::ask_next(const TaskRef& task, int64_t now) {
  AskedPeer* const peer = task->peer();
  if (!make_ready(peer, now)) return target_failed(task, peer->code, now);
  if (task->ticket->fields.kind == QUIRE_TICKET_LOAD) {
    const auto is_less_urgent = [&](const TaskRef& other) { return other->ticket->fields.priority < task->ticket->fields.priority; };
    peer->loads.insert(std::find_if(peer->loads.begin(), peer->loads.end(), is_less_urgent), task);
  } else {
    auto request = std::make_shared<Request>();
    request->kind = Kind::kDone;
    request->task = task;
    request->peer = task->targets[task->target];
    request->keys.push_back(parse_key(task->ticket->key())->object);
    peer->waiting.push_back(std::move(request));
  }
  fill(peer, now);
}

quire_code Asking::look_up(const TicketRef& ticket, int64_t now) {
  std::map<AskedPeer*, std::vector<RequestRef>> parts;
  auto task = std::make_shared<Task>(ticket);
  for (uint32_t i = 0; i < ticket->fields.num_keys; ++i) {
    const auto key = parse_key(ticket->key(i));
    if (!key || ticket->sizes[i] != 0) continue;
    std::vector<AskedPeerRef> targets;
    if (targets_of(*key, now, &targets) != QUIRE_OK) continue;
    for (const AskedPeerRef& peer : targets) {
      auto& own = parts[peer.get()];
      if (own.empty() || own.back()->keys.size() == kMostKeys) {
        own.push_back(std::make_shared<Request>());
        own.back()->kind = Kind::kLookup;
        own.back()->task = task;
        own.back()->peer = peer;
      }
      own.back()->keys.push_back(key->object);
      own.back()->places.push_back(i);
    }
  }
  if (parts.empty()) return QUIRE_NOT_FOUND;
  for (const auto& [peer, own] : parts) task->parts_left += static_cast<uint32_t>(own.size());
  tasks_.emplace(ticket->fields.ticket, task);
  try {
    for (const auto& [peer, own] : parts) {
      if (make_ready(peer, now)) {
        peer->waiting.insert(peer->waiting.end(), own.begin(), own.end());
        fill(peer, now);
      } else {
        for (const RequestRef& request : own) part_ended(request, false);
      }
    }
  } catch (const std::bad_alloc&) {
    give_up(ticket->fields.ticket, QUIRE_RESOURCE_EXHAUSTED, now);
  }
  return QUIRE_OK;
}

bool Asking::give_up(uint64_t number, quire_code code, int64_t now) {
  const auto found = tasks_.find(number);
  if (found == tasks_.end()) return false;
  const TaskRef task = found->second;
  if (task->is_over) return true;
  forget_requests(task.get());
  if (task->receiving == 0) {
    end_task(task, code);
    return true;
  }
  task->is_over = true;
  task->code = code;
  give_up_bytes(task.get(), now);
  return true;
}

// Of bytes that may be moving. What comes in one host ends at once.
void Asking::give_up_bytes(Task* task, int64_t now) {
  AskedPeer* const peer = task->peer();
  peer->given_up += task->receiving;
  peer->hurry = std::min(peer->hurry, now + kGraceOfLoads);
  if (peer->link != nullptr) transport_.give_up(peer->link, task);
}

// What of it was not begun, or is not being received: what comes for it is dropped.
void Asking::forget_requests(Task* task) {
  const auto forget = [task](AskedPeer* peer) {
    std::erase_if(peer->loads, [&](const TaskRef& other) { return other.get() == task; });
    std::erase_if(peer->waiting, [&](const RequestRef& request) { return request->task.get() == task; });
    std::erase_if(peer->requests, [&](const auto& entry) {
      if (entry.second->task.get() != task) return false;
      peer->wanted_bytes -= entry.second->stretch.bytes;
      ++peer->forgotten;
      return true;
    });
  };
  if (task->ticket->fields.kind == QUIRE_TICKET_LOOKUP) {
    for (const auto& [name, peer] : peers_) forget(peer.get());
  } else if (task->peer() != nullptr) {
    forget(task->peer());
  }
  task->wanted = 0;
}

void Asking::end_task(const TaskRef& task, quire_code code) {
  quire_completion completion = {};
  completion.code = code;
  if (task->ticket->fields.kind == QUIRE_TICKET_LOAD && code == QUIRE_OK) completion.bytes = task->moved;
  if (task->ticket->fields.kind == QUIRE_TICKET_LOOKUP && task->ticket->fields.lease_ns > 0 && task->all_leased) {
    completion.flags = QUIRE_COMPLETION_LEASED;
  }
  tasks_.erase(task->ticket->fields.ticket);
  finish_.finish(task->ticket, completion);
}

void Asking::target_failed(const TaskRef& task, quire_code code, int64_t now) {
  if (task->is_over) return;
  forget_requests(task.get());
  task->any_answered |= code == QUIRE_NOT_FOUND;
  const bool goes_on = code != QUIRE_OUT_OF_RANGE && code != QUIRE_FAILED_PRECONDITION && task->target + 1 < task->targets.size();
  if (task->receiving != 0) {  // of a load that has lost its object, or its peer
    task->is_over = true;
    task->code = code;
    return give_up_bytes(task.get(), now);
  }
  if (!goes_on) return end_task(task, code == QUIRE_UNAVAILABLE && task->any_answered ? QUIRE_NOT_FOUND : code);
  ++task->target;
  task->cursor = Cursor(task->ticket->runs);
  task->moved = 0;
  ask_next(task, now);
}

// ---- Requests ----

// nullptr: nobody wants it any more.
RequestRef Asking::taken(AskedPeer* peer, uint64_t id) {
  const auto found = peer->requests.find(id);
  if (found == peer->requests.end()) {
    peer->forgotten -= peer->forgotten > 0 ? 1 : 0;
    return nullptr;
  }
  RequestRef request = std::move(found->second);
  peer->requests.erase(found);
  return request;
}

bool Asking::send_request(AskedPeer* peer, const RequestRef& request, Message* message, int64_t now) {
  if (!peer->owes()) peer->progress = now;
  request->id = message->request = next_request_++;
  peer->requests.emplace(request->id, request);
  peer->wanted_bytes += request->stretch.bytes;
  if (transport_.send(peer->link, peer->session->seal(message))) return true;
  lose(peer, "it takes no messages", QUIRE_UNAVAILABLE, now);
  return false;
}

void Asking::fill(AskedPeer* peer, int64_t now) {
  while (peer->state == AskedPeer::State::kUp && !peer->waiting.empty() && peer->num_owed() < kMostRequests) {
    const RequestRef request = std::move(peer->waiting.front());
    peer->waiting.pop_front();
    Message message;
    message.kind = request->kind;
    message.keys = request->keys;
    const bool wants_lease = request->task == nullptr || request->task->ticket->fields.lease_ns > 0;
    if (request->kind == Kind::kLookup && wants_lease) message.lease_ms = kSomeLease;
    if (!send_request(peer, request, &message, now)) return;
  }
  fill_loads(peer, now);
}

void Asking::fill_loads(AskedPeer* peer, int64_t now) {
  while (peer->state == AskedPeer::State::kUp && !peer->loads.empty() && peer->num_owed() < kMostRequests && peer->wanted_bytes < kWindow) {
    const TaskRef task = peer->loads.front();
    auto request = std::make_shared<Request>();
    request->task = task;
    request->peer = task->targets[task->target];
    request->stretch = task->cursor.next(kStretch, kMostRanges, kMostExtents);
    if (task->cursor.is_at_end()) peer->loads.pop_front();
    Message message;
    message.kind = Kind::kWant;
    message.keys.push_back(parse_key(task->ticket->key())->object);
    message.ranges = request->stretch.ranges;
    ++task->wanted;
    if (!send_request(peer, request, &message, now)) return;
  }
}

// ---- Answers ----

void Asking::arrived(Arrival* arrival, int64_t now) {
  auto* const peer = static_cast<AskedPeer*>(arrival->link->user);
  if (peer == nullptr || peer->link != arrival->link) return;
  if (peer->state == AskedPeer::State::kConnecting) {
    const auto message = arrival->is_data ? std::nullopt : decode(arrival->message);
    if (message && (message->kind == Kind::kWelcome || message->kind == Kind::kRefuse)) return greeted(peer, *message, now);
    return lose(peer, "it does not greet", QUIRE_UNAVAILABLE, now);
  }
  const auto message = peer->session->open(arrival->message);
  const bool is_right = message && arrival->is_data == (message->kind == Kind::kData) &&
                        (message->kind == Kind::kData || message->kind == Kind::kFound || message->kind == Kind::kAnswer);
  if (!is_right) return lose(peer, "it sent what is no message of this connection", QUIRE_UNAVAILABLE, now);
  if (arrival->is_data || peer->receiving == 0) peer->progress = now;  // bytes that stand still are not made good by answers
  peer->pause = 0;
  if (message->kind == Kind::kData) {
    data(peer, *message, arrival, now);
  } else {
    answered(peer, *message, now);
  }
}

void Asking::answered(AskedPeer* peer, const Message& message, int64_t now) {
  const RequestRef request = taken(peer, message.request);
  if (request == nullptr) return fill(peer, now);  // it was given up
  peer->wanted_bytes -= request->stretch.bytes;
  if (request->kind == Kind::kLookup) {
    if (message.kind != Kind::kFound || message.sizes.size() != request->keys.size()) {
      part_ended(request, false);
      return lose(peer, "it answers what was not asked", QUIRE_UNAVAILABLE, now);
    }
    found(request, message, now);
    return fill(peer, now);
  }
  static constexpr quire_code kCodes[] = {QUIRE_OK, QUIRE_NOT_FOUND, QUIRE_OUT_OF_RANGE, QUIRE_FAILED_PRECONDITION, QUIRE_UNAVAILABLE};
  const quire_code code = kCodes[static_cast<size_t>(message.verdict)];
  const bool is_right = message.kind == Kind::kAnswer && (code != QUIRE_OK || request->kind == Kind::kDone);
  if (!is_right) {
    target_failed(request->task, QUIRE_UNAVAILABLE, now);
    return lose(peer, "it answers what was not asked", QUIRE_UNAVAILABLE, now);
  }
  if (request->kind == Kind::kDone && code == QUIRE_OK) {
    peer->interests.erase(request->keys[0].name + std::string(request->keys[0].handle.begin(), request->keys[0].handle.end()));
    end_task(request->task, QUIRE_OK);
  } else {
    target_failed(request->task, code, now);
  }
  fill(peer, now);
}

void Asking::found(const RequestRef& request, const Message& message, int64_t now) {
  AskedPeer* const peer = request->peer.get();
  for (size_t i = 0; i < request->keys.size(); ++i) {
    const ObjectKey& key = request->keys[i];
    const std::string name = key.name + std::string(key.handle.begin(), key.handle.end());
    if (request->task == nullptr) {
      if (message.sizes[i] == 0) peer->interests.erase(name);
      continue;
    }
    uint64_t& size = request->task->ticket->sizes[request->places[i]];
    if (size == 0) size = message.sizes[i];
    const int64_t lease = std::min(request->task->ticket->fields.lease_ns, kLongestInterest);
    if (lease <= 0 || message.sizes[i] == 0 || !message.leased || peer->interests.size() >= kMostInterests) continue;
    try {
      Interest& interest = peer->interests[name];
      interest = {key, std::max(interest.until, now + lease)};
    } catch (const std::bad_alloc&) {
      request->task->all_leased = false;  // nobody would renew it
    }
    peer->next_beat = std::min(peer->next_beat, now + peer->lease_ns / 3);
  }
  if (request->task == nullptr) return;
  request->task->all_leased &= message.leased;
  part_ended(request, true);
}

// A look-up goes without the peers that are lost, unless all of them are.
void Asking::part_ended(const RequestRef& request, bool is_answered) {
  const TaskRef& task = request->task;
  if (task == nullptr) return;
  task->any_answered |= is_answered;
  if (--task->parts_left != 0) return;
  const bool has_own = std::any_of(task->ticket->sizes.begin(), task->ticket->sizes.end(), [](uint64_t size) { return size != 0; });
  end_task(task, task->any_answered || has_own ? QUIRE_OK : QUIRE_UNAVAILABLE);
}

void Asking::data(AskedPeer* peer, const Message& header, Arrival* arrival, int64_t now) {
  auto transfer = std::make_unique<Transfer>();  // before anything has changed
  const RequestRef request = taken(peer, header.request);
  if (request == nullptr) return fill(peer, now);  // it is dropped
  if (request->kind != Kind::kWant || header.bytes != request->stretch.bytes || header.bytes != arrival->length) {
    if (request->kind == Kind::kLookup) {
      part_ended(request, false);
    } else {
      target_failed(request->task, QUIRE_UNAVAILABLE, now);
    }
    return lose(peer, "it sends what was not asked for", QUIRE_UNAVAILABLE, now);
  }
  --request->task->wanted;
  ++request->task->receiving;
  ++peer->receiving;
  if (arrival->waiting == nullptr) {
    const uint8_t* from = arrival->bytes.data();
    for (const ucp_dt_iov_t& place : request->stretch.places) {
      std::copy_n(from, place.length, static_cast<uint8_t*>(place.buffer));
      from += place.length;
    }
    return received(request, true, now);
  }
  transfer->places = std::move(request->stretch.places);
  transfer->bytes = request->stretch.bytes;
  transfer->about = request;
  transfer->whose = request->task.get();
  transport_.receive(peer->link, arrival, std::move(transfer));
}

void Asking::ended(std::unique_ptr<Transfer> transfer, int64_t now) {
  received(std::static_pointer_cast<Request>(transfer->about), transfer->status == UCS_OK, now);
}

void Asking::received(const RequestRef& request, bool is_whole, int64_t now) {
  AskedPeer* const peer = request->peer.get();
  const TaskRef task = request->task;
  --task->receiving;
  --peer->receiving;
  peer->wanted_bytes -= request->stretch.bytes;
  if (is_whole) peer->progress = now;
  if (task->is_over) {
    if (--peer->given_up == 0) peer->hurry = INT64_MAX;
    if (task->receiving == 0) end_task(task, task->code);
  } else if (!is_whole) {
    target_failed(task, QUIRE_UNAVAILABLE, now);
  } else {
    task->moved += request->stretch.bytes;
    if (task->cursor.is_at_end() && task->wanted == 0 && task->receiving == 0) {
      end_task(task, task->moved == task->total ? QUIRE_OK : QUIRE_RESOURCE_EXHAUSTED);  // a stretch was lost for want of memory
    }
  }
  fill(peer, now);
}

}  // namespace quire::ucx
