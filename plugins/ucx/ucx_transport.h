// Connections: over UCX, and to processes of this host over shared memory, which is chosen here.
// Only one thread calls this.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "plugins/ucx/ucx_fabric.h"
#include "plugins/ucx/ucx_near.h"

namespace quire::ucx {

class Transport {
 public:
  using Events = quire::ucx::Events;

  Transport(const Config& config, const Log* log) : config_(config), log_(*log), fabric_(config, log) {}

  // Errors: UNAVAILABLE (no transport, address in use), INTERNAL, RESOURCE_EXHAUSTED.
  Outcome open() {
    if (Outcome outcome = fabric_.open(); !outcome.ok() || !config_.same_host) return outcome;
    near_.emplace(&log_);
    if (Outcome outcome = near_->open(fabric_.fd()); !outcome.ok()) return outcome;
    if (config_.listen) near_->listen(*config_.listen, fabric_.port());
    return {};
  }
  int fd() const { return near_ ? near_->fd() : fabric_.fd(); }
  uint16_t port() const { return fabric_.port(); }
  // True: something happened; ask again.
  bool progress(Events* events) {
    const bool is_busy = near_ && near_->progress(events);
    return fabric_.progress(events) || is_busy;
  }
  // Whether the thread may sleep until the descriptor is readable, or for a millisecond while
  // is_closing(): what is waited for then does not make it readable.
  bool arm() { return (!near_ || near_->arm()) && fabric_.arm(); }
  // Bytes are on the way from or to a process of this host.
  bool is_streaming() const { return near_ && near_->is_streaming(); }
  bool is_closing() const { return fabric_.is_closing() || (near_ && near_->is_full()); }

  // nullptr: it failed at once. may_be_near: over shared memory if the peer is in this host.
  Link* connect(const Address& address, bool may_be_near = true) {
    Link* const link = near_ && may_be_near ? near_->connect(address) : nullptr;
    return link != nullptr ? link : fabric_.connect(address);
  }
  Link* accept(Knock knock) { return knock.socket >= 0 ? near_->accept(knock.socket) : fabric_.accept(knock.request); }
  void reject(Knock knock) { knock.socket >= 0 ? Near::reject(knock.socket) : fabric_.reject(knock.request); }

  // As the media say.
  bool send(Link* link, Bytes message) { return link->medium->send(link, std::move(message)); }
  void send(Link* link, std::unique_ptr<Transfer> transfer) { link->medium->send(link, std::move(transfer)); }
  void receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) {
    link->medium->receive(link, arrival, std::move(transfer));
  }
  void give_up(Link* link, const void* whose) { link->medium->give_up(link, whose); }
  void close(Link* link) { link->medium->close(link); }

  // Nothing is left of any connection.
  bool is_quiet() const { return fabric_.is_quiet() && (!near_ || near_->is_quiet()); }
  ucp_worker_h worker() const { return fabric_.worker(); }
  void leave_in_child() {
    if (near_) near_->leave_in_child();
  }

 private:
  const Config& config_;
  const Log& log_;
  Fabric fabric_;
  std::optional<Near> near_;
};

}  // namespace quire::ucx
