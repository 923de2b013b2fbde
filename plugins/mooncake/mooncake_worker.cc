#include "plugins/mooncake/mooncake_worker.h"

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "plugins/common/pieces.h"
#include "plugins/common/waiting.h"
#include "plugins/mooncake/answers.h"
#include "plugins/mooncake/value.h"

namespace quire::mooncake {
namespace {

constexpr uint64_t kChunk = uint64_t{1} << 20;
constexpr char kQuarantined[] = "staging memory is quarantined: the library may still write into it";
constexpr int64_t kFull = 5'000'000'000;  // nanoseconds for which a store is called full after a refusal

}  // namespace

std::string name_of_key(const std::string& prefix, std::string_view key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string name = prefix;
  name.reserve(prefix.size() + 2 * key.size());
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

std::shared_ptr<Session> Shared::session() {
  const std::lock_guard guard(lock_);
  return session_;
}

void Shared::set_session(std::shared_ptr<Session> session) {
  std::shared_ptr<Session> before;  // ends without the lock
  const std::lock_guard guard(lock_);
  before = std::exchange(session_, std::move(session));
  if (before != nullptr) ending_ = before;
}

void Worker::run() {
  loop();
  if (shared_->num_at_work.fetch_sub(1) == 1) shared_->set_session(nullptr);
  shared_->tickets.left();
}

void Worker::loop() {
  while (true) {
    const Task task = shared_->tickets.next(number_);
    if (task.kind == Task::Kind::kLeave) break;
    try {
      if (task.kind == Task::Kind::kTry) {
        shared_->tickets.tried(try_store());
      } else {
        serve(task.ticket.get());
      }
    } catch (const std::bad_alloc&) {
      if (task.kind == Task::Kind::kTry) {
        shared_->tickets.tried({QUIRE_RESOURCE_EXHAUSTED, 0, ""});
      } else {
        shared_->tickets.end(task.ticket.get(), QUIRE_RESOURCE_EXHAUSTED);
      }
    }
    session_.reset();
  }
}

// Whether the store answers; it is opened if it is not open, or if failed transfers may still write into too much of its staging memory.
Outcome Worker::try_store() {
  session_ = shared_->session();
  if (session_ != nullptr && session_->is_worn_out()) {
    shared_->set_session(nullptr);
    session_.reset();
  }
  if (session_ == nullptr) {
    {
      const std::lock_guard guard(shared_->lock_);
      if (!shared_->ending_.expired()) {
        return {QUIRE_UNAVAILABLE, 0, kQuarantined};
      }
    }
    if (Outcome outcome = Session::open(shared_->library, shared_->config, &session_); !outcome.ok()) return outcome;
    shared_->set_session(session_);
  }
  return ask_master();
}

Outcome Worker::ask_master() {
  if (session_->is_worn_out()) return {QUIRE_UNAVAILABLE, 0, kQuarantined};
  const std::string name = shared_->config.prefix + "is-anybody-there";
  const int answer = shared_->library.is_exist(session_->store(), name.c_str());
  if (answer >= 0) return {};
  return {QUIRE_UNAVAILABLE, 0, "mooncake_store_is_exist with master " + shared_->config.master + ": " + name_of(answer)};
}

void Worker::serve(Ticket* ticket) {
  session_ = shared_->session();
  if (session_ == nullptr) return shared_->tickets.end(ticket, QUIRE_UNAVAILABLE);
  switch (ticket->fields.kind) {
    case QUIRE_TICKET_STORE:
      return store(ticket);
    case QUIRE_TICKET_LOAD:
      return load(ticket);
    case QUIRE_TICKET_LOOKUP:
      return look_up(ticket);
    default:
      return remove(ticket);
  }
}

void Worker::complain(const char* function, int64_t answer) {
  shared_->tickets.say(QUIRE_LOG_WARN, std::string(function) + ": " + name_of(answer));
}

void Worker::fail(Ticket* ticket, const char* function, int64_t answer) {
  const quire_code code = code_of(answer);
  if (code != QUIRE_NOT_FOUND && code != QUIRE_RESOURCE_EXHAUSTED) complain(function, answer);
  if (answer == kNoRoom) shared_->full_until.store(plugins::monotonic() + kFull, std::memory_order_relaxed);
  shared_->tickets.end(ticket, code);
  // One holder of values may be lost, or the master.
  if (code != QUIRE_UNAVAILABLE) return;
  if (Outcome outcome = ask_master(); !outcome.ok()) shared_->tickets.lost(outcome);
}

Worker::Staging Worker::take_staging(Ticket* ticket) {
  Staging staging(session_);
  if (staging.bytes() != nullptr) return staging;
  shared_->tickets.end(ticket, QUIRE_UNAVAILABLE);
  shared_->tickets.lost({QUIRE_UNAVAILABLE, 0, kQuarantined});
  return staging;
}

bool Worker::gather(Ticket* ticket, uint8_t* to) {
  const plugins::Pieces pieces(ticket->runs);
  const uint64_t bytes = ticket->fields.object_bytes;
  for (uint64_t at = 0; at < bytes; at += kChunk) {
    if (!shared_->tickets.may_copy(number_, ticket)) return false;
    pieces.gather(at, std::min(at + kChunk, bytes), to + at);
  }
  return true;
}

void Worker::store(Ticket* ticket) {
  const Library& library = shared_->library;
  const std::string key(ticket->key());
  const std::string name = name_of_key(shared_->config.prefix, key);
  if (!may_call(ticket)) return;
  const int exists = library.is_exist(session_->store(), name.c_str());
  if (exists < 0) return fail(ticket, "mooncake_store_is_exist", exists);
  if (exists > 0) return shared_->tickets.end(ticket, QUIRE_OK, QUIRE_COMPLETION_EXISTED);
  int64_t answer = 0;
  const uint64_t bytes = ticket->fields.object_bytes;
  {
    Staging staging = take_staging(ticket);
    if (staging.bytes() == nullptr || !gather(ticket, staging.bytes())) return;
    seal(key, bytes, staging.bytes());
    const Replication replication = {shared_->config.replicas, 0, 0, nullptr, 0};
    if (!may_call(ticket, true)) return;
    staging.begin_transfer();
    answer = library.put_from(session_->store(), name.c_str(), staging.bytes(), bytes + kSealBytes,
                              shared_->config.replicas > 1 ? &replication : nullptr);
    if (is_settled(answer)) {
      staging.end_transfer();
      break_seal({staging.bytes(), bytes + kSealBytes});
    }
  }
  if (answer == kAlreadyExists) return shared_->tickets.end(ticket, QUIRE_OK, QUIRE_COMPLETION_EXISTED);
  if (answer < 0) return fail(ticket, "mooncake_store_put_from", answer);
  shared_->full_until.store(0, std::memory_order_relaxed);
  shared_->sizes.set(key, bytes);
  shared_->tickets.end(ticket, QUIRE_OK, 0, bytes);
}

void Worker::drop_damaged(const std::string& key, const std::string& name) {
  shared_->sizes.forget(key);
  shared_->tickets.say(QUIRE_LOG_WARN, "the value of key " + name + " is not what was stored; it is removed");
  const int answer = shared_->library.remove(session_->store(), name.c_str(), 1);
  if (answer == 0) shared_->num_damaged.fetch_add(1, std::memory_order_relaxed);
  if (answer < 0 && code_of(answer) != QUIRE_NOT_FOUND) complain("mooncake_store_remove", answer);
}

int64_t Worker::fetch(Ticket* ticket, const std::string& key, Staging* staging) {
  const std::string name = name_of_key(shared_->config.prefix, key);
  const auto room = static_cast<int64_t>(shared_->config.object_bytes + kSealBytes);
  for (const bool is_last : {false, true}) {
    if (!may_call(ticket)) return 0;
    staging->begin_transfer();
    const int64_t answer = shared_->library.get_into(session_->store(), name.c_str(), staging->bytes(), static_cast<size_t>(room));
    if (is_settled(answer)) staging->end_transfer();
    if (answer == kLeaseExpired && !is_last) continue;
    if (answer < 0) return answer;
    const std::span<uint8_t> value(staging->bytes(), static_cast<size_t>(std::min(answer, room)));
    const uint64_t object_bytes = answer > room ? 0 : open_value(key, value);
    break_seal(value);
    if (object_bytes != 0) return static_cast<int64_t>(object_bytes);
  }
  drop_damaged(key, name);
  shared_->tickets.end(ticket, QUIRE_DATA_LOSS);
  return 0;
}

void Worker::deliver(Ticket* ticket, uint64_t object_bytes, const uint8_t* from) {
  const plugins::Pieces pieces(ticket->runs);
  if (pieces.end() > object_bytes) return shared_->tickets.end(ticket, QUIRE_OUT_OF_RANGE);
  for (uint64_t at = 0; at < pieces.end(); at += kChunk) {
    if (!shared_->tickets.may_copy(number_, ticket)) return;
    pieces.scatter(at, std::min(at + kChunk, pieces.end()), from + at);
  }
  shared_->tickets.end(ticket, QUIRE_OK, 0, pieces.bytes());
}

void Worker::load(Ticket* ticket) {
  const std::string key(ticket->key());
  int64_t answer = 0;
  {
    Staging staging = take_staging(ticket);
    if (staging.bytes() == nullptr) return;
    answer = fetch(ticket, key, &staging);
    if (answer > 0) {
      shared_->sizes.set(key, static_cast<uint64_t>(answer));
      return deliver(ticket, static_cast<uint64_t>(answer), staging.bytes());
    }
  }
  if (code_of(answer) == QUIRE_NOT_FOUND) shared_->sizes.forget(key);
  if (answer == kInvalidParameters && is_too_large(ticket, key)) return shared_->tickets.end(ticket, QUIRE_RESOURCE_EXHAUSTED);
  if (answer < 0) fail(ticket, "mooncake_store_get_into", answer);
}

// Of a value that did not fit: another process may have stored it with other settings.
bool Worker::is_too_large(Ticket* ticket, const std::string& key) {
  if (!may_call(ticket)) return false;
  const std::string name = name_of_key(shared_->config.prefix, key);
  const int64_t bytes = shared_->library.get_size(session_->store(), name.c_str());
  if (bytes <= static_cast<int64_t>(shared_->config.object_bytes + kSealBytes)) return false;
  shared_->tickets.say(QUIRE_LOG_WARN, "the value of key " + name + " has " + std::to_string(bytes) +
                                           " bytes, more than this process can load; see config field object_bytes");
  return true;
}

int64_t Worker::size_of(Ticket* ticket, const std::string& name, const std::string& key) {
  if (const uint64_t known = shared_->sizes.find(key); known != 0) return static_cast<int64_t>(known);
  if (!may_call(ticket)) return 0;
  const int64_t bytes = shared_->library.get_size(session_->store(), name.c_str());
  if (bytes < 0) return bytes;
  if (static_cast<uint64_t>(bytes) <= kSealBytes) {
    drop_damaged(key, name);
    return 0;
  }
  const uint64_t object_bytes = static_cast<uint64_t>(bytes) - kSealBytes;
  shared_->sizes.set(key, object_bytes);
  return static_cast<int64_t>(object_bytes);
}

void Worker::look_up(Ticket* ticket) {
  const uint64_t n = ticket->fields.num_keys;
  std::vector<std::string> names;
  std::vector<const char*> texts;
  std::vector<int> exists(n, 0);
  names.reserve(n);
  texts.reserve(n);
  for (uint64_t i = 0; i < n; ++i) {
    names.push_back(name_of_key(shared_->config.prefix, ticket->key(i)));
    texts.push_back(names.back().c_str());
  }
  if (!may_call(ticket)) return;
  const int answer = shared_->library.batch_is_exist(session_->store(), texts.data(), n, exists.data());
  if (answer < 0) return fail(ticket, "mooncake_store_batch_is_exist", answer);
  for (uint64_t i = 0; i < n; ++i) {
    const std::string key(ticket->key(i));
    if (exists[i] == 0) shared_->sizes.forget(key);
    const int64_t size = exists[i] <= 0 ? exists[i] : size_of(ticket, names[i], key);
    if (size < 0 && code_of(size) != QUIRE_NOT_FOUND) return fail(ticket, "a look-up of sizes", size);
    ticket->sizes[i] = size > 0 ? static_cast<uint64_t>(size) : 0;
  }
  const bool is_leased = ticket->fields.lease_ns > 0 && ticket->fields.lease_ns <= shared_->config.lease_ns;
  shared_->tickets.end(ticket, QUIRE_OK, is_leased ? QUIRE_COMPLETION_LEASED : 0);
}

void Worker::remove(Ticket* ticket) {
  const std::string key(ticket->key());
  const std::string name = name_of_key(shared_->config.prefix, key);
  if (!may_call(ticket, true)) return;
  shared_->sizes.forget(key);
  const int answer = shared_->library.remove(session_->store(), name.c_str(), 1);
  if (answer < 0) return fail(ticket, "mooncake_store_remove", answer);
  shared_->tickets.end(ticket, QUIRE_OK);
}

}  // namespace quire::mooncake
