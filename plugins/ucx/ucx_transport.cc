#include "plugins/ucx/ucx_transport.h"

namespace quire::ucx {

Transport::Transport(const Config& config, const Log* log) : config_(config), log_(*log), fabric_(config, log) {}

Outcome Transport::open() {
  if (Outcome outcome = fabric_.open(); !outcome.ok() || !config_.same_host) return outcome;
  near_.emplace(&log_);
  if (Outcome outcome = near_->open(fabric_.fd()); !outcome.ok()) return outcome;
  if (config_.listen) near_->listen(*config_.listen, fabric_.port());
  return {};
}

bool Transport::progress(Events* events) {
  const bool is_busy = near_ && near_->progress(events);
  return fabric_.progress(events) || is_busy;
}

Link* Transport::connect(const Address& address, bool may_be_near) {
  Link* const link = near_ && may_be_near ? near_->connect(address) : nullptr;
  return link != nullptr ? link : fabric_.connect(address);
}

Link* Transport::accept(Knock knock) { return knock.socket >= 0 ? near_->accept(knock.socket) : fabric_.accept(knock.request); }
void Transport::reject(Knock knock) { knock.socket >= 0 ? Near::reject(knock.socket) : fabric_.reject(knock.request); }

bool Transport::send(Link* link, Bytes message) { return link->medium->send(link, std::move(message)); }
void Transport::send(Link* link, std::unique_ptr<Transfer> transfer) { link->medium->send(link, std::move(transfer)); }
void Transport::receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) {
  link->medium->receive(link, arrival, std::move(transfer));
}

}  // namespace quire::ucx
