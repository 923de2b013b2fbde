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

  Transport(const Config& config, const Log* log);

  // Errors: UNAVAILABLE (no transport, address in use), INTERNAL, RESOURCE_EXHAUSTED.
  Outcome open();
  int fd() const { return near_ ? near_->fd() : fabric_.fd(); }
  uint16_t port() const { return fabric_.port(); }
  // True: something happened; ask again.
  bool progress(Events* events);
  // Whether the thread may sleep until the descriptor is readable, or for a millisecond while
  // is_closing(): what is waited for then does not make it readable.
  bool arm() { return (!near_ || near_->arm()) && fabric_.arm(); }
  bool is_closing() const { return fabric_.is_closing() || (near_ && near_->is_full()); }
  // Bytes are on the way from or to a process of this host.
  bool is_streaming() const { return near_ && near_->is_streaming(); }

  // nullptr: it failed at once. may_be_near: over shared memory if the peer is in this host.
  Link* connect(const Address& address, bool may_be_near = true);
  Link* accept(Knock knock);
  void reject(Knock knock);

  // As the media say.
  bool send(Link* link, Bytes message);
  void send(Link* link, std::unique_ptr<Transfer> transfer);
  void receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer);
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
