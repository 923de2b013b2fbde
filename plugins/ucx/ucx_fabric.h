// Connections over UCX: messages, and bytes by rendezvous. What UCX says in callbacks waits until
// progress() has returned from it; nothing is done inside of a callback.
//
// No address of ours is on the wire: bytes are described as lists (IOV), which UCX sends in pieces.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "plugins/ucx/ucx_config.h"
#include "plugins/ucx/ucx_link.h"
#include "plugins/ucx/ucx_log.h"

namespace quire::ucx {

class Fabric;

// A connection over UCX.
struct FabricLink final : Link {
  Fabric* fabric = nullptr;
  ucp_ep_h endpoint = nullptr;
  void* closing = nullptr;  // UCX's request, until it has ended
};

class Fabric final : public Medium {
 public:
  Fabric(const Config& config, const Log* log) : config_(config), log_(*log) {}
  ~Fabric() override;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

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
  Link* accept(ucp_conn_request_h request);
  void reject(ucp_conn_request_h request);
  bool send(Link* link, Bytes message) override;
  void send(Link* link, std::unique_ptr<Transfer> transfer) override;
  void receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) override;
  void drop(Arrival* arrival) override;
  // Bytes that may be moving end with their connection only.
  void give_up(Link* /*link*/, const void* /*whose*/) override {}
  void close(Link* link) override;
  // Nothing is left of any connection.
  bool is_quiet() const { return links_.empty(); }
  ucp_worker_h worker() const { return worker_; }

 private:
  Outcome open_context();
  Outcome open_worker();
  Outcome listen();
  FabricLink* add(ucp_ep_params_t params);
  void post(std::unique_ptr<Transfer> transfer, const ucp_request_param_t& base, unsigned id);
  void forget_closed();
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
  FabricLink* link_of(const ucp_am_recv_param_t* param);

  const Config& config_;
  const Log& log_;
  ucp_context_h ucx_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  ucp_listener_h listener_ = nullptr;
  int fd_ = -1;
  uint16_t port_ = 0;
  std::vector<std::unique_ptr<FabricLink>> links_;
  std::unordered_map<ucp_ep_h, FabricLink*> by_endpoint_;
  bool any_lost_ = false;
  bool any_closed_ = false;
  std::vector<ucp_conn_request_h> knocks_;
  std::vector<Arrival> arrivals_;
  Ends ends_;
};

}  // namespace quire::ucx
