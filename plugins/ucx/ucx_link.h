// Connections, and what moves over them. There are two media: UCX, and memory that processes of one
// host share. What asks and what serves knows neither.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "plugins/ucx/ucx_wire.h"

namespace quire::ucx {

inline constexpr size_t kMostExtents = 1024;  // of a transfer
inline constexpr uint64_t kMostEager = 4096;  // bytes that come with their header
inline constexpr uint32_t kMostUnsent = 512;  // messages of a connection that wait to be sent

class Medium;

// A connection.
struct Link {
  Medium* medium = nullptr;
  bool is_near = false;    // in one host, over shared memory
  bool is_served = false;  // the peer has connected
  bool is_lost = false;    // and was not closed yet
  bool is_closed = false;
  bool is_wrong = false;      // it sent what cannot be
  const char* why = "";       // it is lost
  uint32_t in_flight = 0;     // transfers and messages
  uint32_t unsent = 0;        // messages
  bool has_streamed = false;  // near: bytes have come through the shared memory
  void* user = nullptr;
  virtual ~Link() = default;
};

// Bytes that are sent or received. The medium has it until it has ended.
struct Transfer {
  Link* link = nullptr;
  // Of one that is sent: its header, made when it is sent, so that counters go out in their order.
  // May be called as long as the link is open.
  std::function<Bytes()> make_header;
  Bytes header;
  std::vector<ucp_dt_iov_t> places;
  Bytes staged;  // where they are, if not with their owner
  uint64_t bytes = 0;
  std::shared_ptr<void> about;  // what it is of
  const void* whose = nullptr;  // who may give it up
  bool is_message = false;
  ucs_status_t status = UCS_INPROGRESS;
  void* request = nullptr;   // UCX's, of one that is received
  Transfer* next = nullptr;  // that has ended and was not passed on yet
};

// What has come; `bytes` is empty if they wait at their sender.
struct Arrival {
  Link* link = nullptr;
  bool is_data = false;
  Bytes message;  // of data: its header
  Bytes bytes;
  void* waiting = nullptr;
  uint64_t length = 0;
};

// A peer that wants to connect: over UCX, or at a socket.
struct Knock {
  ucp_conn_request_h request = nullptr;
  int socket = -1;
};

class Events {
 public:
  virtual ~Events() = default;
  virtual void knocked(Knock knock) = 0;  // it is accepted or rejected at once
  virtual void arrived(Arrival* arrival) = 0;
  virtual void ended(std::unique_ptr<Transfer> transfer) = 0;
  virtual void lost(Link* link) = 0;
};

class Medium {
 public:
  virtual ~Medium() = default;
  // False: too much waits to be sent.
  virtual bool send(Link* link, Bytes message) = 0;
  // Its end comes as an event, always.
  virtual void send(Link* link, std::unique_ptr<Transfer> transfer) = 0;
  virtual void receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) = 0;
  // Bytes that nobody wants.
  virtual void drop(Arrival* arrival) = 0;
  // Transfers of `whose` end at once, if the connection can live on without them. Otherwise nothing
  // happens.
  virtual void give_up(Link* link, const void* whose) = 0;
  // By force: no byte moves any more once all its transfers have ended. The link goes then.
  virtual void close(Link* link) = 0;
};

// Transfers that have ended and were not passed on yet: a list that takes no memory.
class Ends {
 public:
  Ends() = default;
  ~Ends() {
    while (first_ != nullptr) delete std::exchange(first_, first_->next);
  }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  bool empty() const { return first_ == nullptr; }
  void add(Transfer* transfer, ucs_status_t status) {
    transfer->status = status;
    transfer->next = std::exchange(first_, transfer);
  }
  void take(Events* events) {
    while (first_ != nullptr) {
      std::unique_ptr<Transfer> transfer(std::exchange(first_, first_->next));
      --transfer->link->in_flight;
      if (transfer->is_message) {
        --transfer->link->unsent;
      } else {
        events->ended(std::move(transfer));
      }
    }
  }

 private:
  Transfer* first_ = nullptr;
};

}  // namespace quire::ucx
