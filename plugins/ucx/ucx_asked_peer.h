// A peer that is asked: its connection, what it owes, and for what it is asked next.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/ucx/ucx_cursor.h"
#include "plugins/ucx/ucx_seal.h"
#include "plugins/ucx/ucx_tickets.h"
#include "plugins/ucx/ucx_transport.h"

namespace quire::ucx {

struct AskedPeer;
using AskedPeerRef = std::shared_ptr<AskedPeer>;

// A ticket for which peers are asked.
struct Task {
  explicit Task(TicketRef of) : ticket(std::move(of)), cursor(ticket->runs) {
    for (const quire_ticket_run& run : ticket->runs) total += run.bytes * run.count;
  }

  TicketRef ticket;
  std::vector<AskedPeerRef> targets;  // loads, removals: one after the other
  size_t target = 0;
  bool any_answered = false;  // a peer that said that it has none
  // Loads.
  Cursor cursor;
  uint32_t wanted = 0;     // stretches that were asked for
  uint32_t receiving = 0;  // stretches whose bytes may be moving
  uint64_t total = 0;      // bytes
  uint64_t moved = 0;
  bool is_over = false;  // it ends with `code` when nothing moves any more
  quire_code code = QUIRE_OK;
  // Look-ups.
  uint32_t parts_left = 0;
  bool all_leased = true;

  AskedPeer* peer() const { return target < targets.size() ? targets[target].get() : nullptr; }
};
using TaskRef = std::shared_ptr<Task>;

struct Request {
  uint64_t id = 0;
  Kind kind = Kind::kWant;
  TaskRef task;  // nullptr: a heartbeat
  AskedPeerRef peer;
  Stretch stretch;               // want
  std::vector<ObjectKey> keys;   // look-up, done
  std::vector<uint32_t> places;  // look-up: of the keys in the ticket
};
using RequestRef = std::shared_ptr<Request>;

// An object with a lease that is kept up.
struct Interest {
  ObjectKey key;
  int64_t until = 0;
};

struct AskedPeer {
  enum class State { kDown, kConnecting, kUp };

  Address address;
  State state = State::kDown;
  Link* link = nullptr;
  bool avoids_near = false;  // in this host its process did not greet, or nothing came
  Nonce nonce = {};
  std::optional<Session> session;
  int64_t since = 0;     // connecting
  int64_t progress = 0;  // when it gave something last, or owed nothing
  int64_t pause = 0;     // before the next try; 0: the last one went well
  int64_t next_try = 0;
  quire_code code = QUIRE_UNAVAILABLE;                // why it is down
  int64_t used = 0;                                   // when it was asked last
  std::unordered_map<uint64_t, RequestRef> requests;  // sent, and not answered
  uint64_t wanted_bytes = 0;                          // of them and of what is being received
  uint32_t forgotten = 0;                             // sent and not answered, and nobody wants it
  uint32_t receiving = 0;
  uint32_t given_up = 0;      // of these: nobody wants them any more
  int64_t hurry = INT64_MAX;  // then the connection is closed for their sake
  std::deque<RequestRef> waiting;
  std::list<TaskRef> loads;  // that have more to ask for, the most urgent first
  std::map<std::string, Interest> interests;
  int64_t lease_ns = 0;
  int64_t next_beat = INT64_MAX;

  size_t num_owed() const { return requests.size() + forgotten + receiving; }
  bool owes() const { return num_owed() != 0; }
  bool is_idle() const { return !owes() && waiting.empty() && loads.empty(); }
};

}  // namespace quire::ucx
