// The thread of an instance. It alone touches UCX and the sockets of peers in this host. It waits
// in poll(2) for their descriptor and for the one of the tickets. It spins only while bytes of a
// peer in this host are on the way, for 50 microseconds after the last ones.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <cstdint>
#include <list>
#include <set>
#include <utility>
#include <vector>

#include "plugins/ucx/ucx_asking.h"
#include "plugins/ucx/ucx_finish.h"
#include "plugins/ucx/ucx_offers.h"
#include "plugins/ucx/ucx_serving.h"
#include "plugins/ucx/ucx_tickets.h"
#include "plugins/ucx/ucx_transport.h"

namespace quire::ucx {

// What other threads may read at any time.
struct Figures {
  std::atomic<uint64_t> num_objects{0};
  std::atomic<uint64_t> used_bytes{0};
  std::atomic<uint64_t> num_evicted{0};
  std::atomic<bool> is_down{false};
  std::atomic<bool> is_full{false};
};

class Worker final : public Finish, public Events {
 public:
  Worker(const Config& config, Tickets* tickets, const Log* log);

  Outcome open() { return transport_.open(); }
  uint16_t port() const { return transport_.port(); }
  // Until the tickets are closed. Nothing touches the memory of a ticket afterwards.
  void run();
  const Figures& figures() const { return figures_; }
  void leave_in_child() { transport_.leave_in_child(); }

 private:
  void turn();
  void take();
  void sort_fresh();
  void begin_some();
  void begin(const TicketRef& ticket);
  quire_code begin_store(const TicketRef& ticket);
  quire_code begin_load(const TicketRef& ticket);
  quire_code begin_lookup(const TicketRef& ticket);
  quire_code begin_remove(const TicketRef& ticket);
  void give_up(uint64_t number, quire_code code);
  void end_offers();
  void wait(int64_t until);
  void shut_down();
  void publish();

  using Finish::finish;
  void finish(const TicketRef& ticket, quire_completion completion) override;
  void knocked(Knock knock) override;
  void arrived(Arrival* arrival) override;
  void ended(std::unique_ptr<Transfer> transfer) override;
  void lost(Link* link) override;

  const Config& config_;
  Tickets& tickets_;
  const Log& log_;
  Transport transport_;
  Offers offers_;
  Serving serving_;
  Asking asking_;
  Figures figures_;
  int64_t now_ = 0;
  int64_t patience_end_ = 0;
  std::set<std::pair<int64_t, uint64_t>> deadlines_;  // with numbers of tickets
  std::unordered_map<uint64_t, TicketRef> offered_;   // stores that have not ended
  std::list<TicketRef> fresh_;
  std::vector<uint64_t> cancelled_;
  std::list<TicketRef> waiting_;  // the most urgent first
};

}  // namespace quire::ucx
