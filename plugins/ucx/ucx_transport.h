// Connections over UCX: messages, and bytes by rendezvous. Only one thread calls this. What UCX
// says in callbacks waits until progress() has returned from it; nothing is done inside of a
// callback.
//
// No address of ours is on the wire: bytes are described as lists (IOV), which UCX sends in pieces.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "plugins/ucx/ucx_config.h"
#include "plugins/ucx/ucx_log.h"
#include "plugins/ucx/ucx_wire.h"

namespace quire::ucx {

inline constexpr size_t kMostExtents = 1024;  // of a transfer
inline constexpr uint64_t kMostEager = 4096;  // bytes that come with their header
inline constexpr uint32_t kMostUnsent = 512;  // messages of a connection that wait to be sent

class Transport;

// A connection.
struct Link {
  Transport* transport = nullptr;
  ucp_ep_h endpoint = nullptr;
  bool is_served = false;  // the peer has connected
  bool is_lost = false;    // and was not closed yet
  bool is_closed = false;
  bool is_wrong = false;    // it sent what cannot be
  const char* why = "";     // it is lost
  void* closing = nullptr;  // UCX's request, until it has ended
  uint32_t in_flight = 0;   // transfers and messages
  uint32_t unsent = 0;      // messages
  void* user = nullptr;
};

// Bytes that are sent or received. The transport has it until it has ended.
struct Transfer {
  Link* link = nullptr;
  Bytes header;  // of one that is sent
  std::vector<ucp_dt_iov_t> places;
  Bytes staged;  // where they are, if not with their owner
  uint64_t bytes = 0;
  std::shared_ptr<void> about;  // what it is of
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

// A peer that wants to connect.
using Knock = ucp_conn_request_h;

class Transport {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void knocked(Knock knock) = 0;  // it is accepted or rejected at once
    virtual void arrived(Arrival* arrival) = 0;
    virtual void ended(std::unique_ptr<Transfer> transfer) = 0;
    virtual void lost(Link* link) = 0;
  };

  Transport(const Config& config, const Log* log) : config_(config), log_(*log) {}
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Errors: UNAVAILABLE (no transport, address in use), INTERNAL.
  Outcome open();
  int fd() const { return fd_; }
  uint16_t port() const { return port_; }
  // True: something happened; ask again.
  bool progress(Events* events);
  // Whether the thread may sleep until the descriptor is readable, or for a millisecond while
  // connections are being closed: their ends do not make it readable.
  bool arm();
  bool is_closing() const { return any_closed_; }

  // nullptr: it failed at once.
  Link* connect(const Address& address);
  Link* accept(Knock knock);
  void reject(Knock knock);
  // False: too much waits to be sent.
  bool send(Link* link, Bytes message);
  // Its end comes as an event, always.
  void send(Link* link, std::unique_ptr<Transfer> transfer);
  void receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer);
  // Bytes that nobody wants.
  void drop(Arrival* arrival);
  // By force: no byte moves any more once all its transfers have ended. The link goes then.
  void close(Link* link);
  // Nothing is left of any connection.
  bool is_quiet() const { return links_.empty(); }
  uint64_t num_links() const { return links_.size(); }
  ucp_worker_h worker() const { return worker_; }

 private:
  Outcome open_context();
  Outcome open_worker();
  Outcome listen();
  Link* add(ucp_ep_params_t params);
  void post(std::unique_ptr<Transfer> transfer, const ucp_request_param_t& base, unsigned id);
  void finish(Transfer* transfer, ucs_status_t status);
  void forget_closed();
  void take_ends(Events* events);
  void take_lost(Events* events);

  static void on_knock(ucp_conn_request_h request, void* own);
  static void on_error(void* link, ucp_ep_h endpoint, ucs_status_t status);
  static ucs_status_t on_message(void* own, const void* header, size_t header_length,  //
                                 void* data, size_t length, const ucp_am_recv_param_t* param);
  static ucs_status_t on_data(void* own, const void* header, size_t header_length, void* data,  //
                              size_t length, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* transfer);
  static void on_received(void* request, ucs_status_t status, size_t length, void* transfer);
  static void on_closed(void* request, ucs_status_t status, void* link);
  Link* link_of(const ucp_am_recv_param_t* param);

  const Config& config_;
  const Log& log_;
  ucp_context_h ucx_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<Link>> links_;
  std::unordered_map<ucp_ep_h, Link*> by_endpoint_;
  bool any_lost_ = false;
  bool any_closed_ = false;
  std::vector<Knock> knocks_;
  std::vector<Arrival> arrivals_;
  Transfer* ends_ = nullptr;  // a list that takes no memory
};

}  // namespace quire::ucx
