// One connection to a server and its thread. It takes parts that wait for the server, writes their
// commands one behind the other without waiting for answers, and ends them as the answers come. It
// never blocks but in poll(2), where it also waits for new parts, cancels and the next deadline.
//
// What is overdue or cancelled ends at once, and its answer is swallowed. A store of which a part
// was sent cannot end so: the connection is closed, the server forgets the part, and everything
// else on the connection starts again. A server that has sent nothing for some time while an answer
// is due is lost: what it was asked ends with UNAVAILABLE.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "plugins/redis/exchange.h"
#include "plugins/redis/inbox.h"
#include "plugins/redis/link.h"
#include "plugins/redis/redis_shard_server.h"

namespace quire::redis {

// A descriptor, closed at the end.
class WakeFd {
 public:
  // -1 in number(): errno says why.
  WakeFd();
  ~WakeFd();
  WakeFd(const WakeFd&) = delete;
  WakeFd& operator=(const WakeFd&) = delete;
  int number() const { return number_; }
  void drain() const;

 private:
  int number_;
};

class Connection {
 public:
  Connection(const Config& config, Server* server, Tickets* tickets,  //
             Condition* condition, const Log* log);

  // Errors: RESOURCE_EXHAUSTED.
  Outcome open();
  // Until the tickets are closed. Nothing touches the memory of a ticket afterwards.
  void run();
  // In a child of fork(): gives the descriptors back.
  void leave() const;

 private:
  // One turn: what is due, then poll(2), then what came.
  void turn();
  void connect(int64_t now);
  void pull(int64_t now);
  void add(std::unique_ptr<Part> part);
  void send(int64_t now);
  bool send_once(int64_t now);
  void receive(int64_t now);
  void stop_overdue(int64_t now);
  void wait(int64_t now);
  // Of an exchange that was answered: what that says of the server, and whether it starts again.
  void look_at(Exchange* answered, int64_t now);

  // The server is lost: what it was asked ends with the outcome's code.
  void lose(const Outcome& outcome, int64_t now);
  // The connection is given up, not the server: what it was asked starts again, on a new one.
  void start_again(int64_t now);
  void forget_link();
  void end(std::shared_ptr<Ticket> ticket, quire_code code);
  void put_back(std::unique_ptr<Part> part);
  // Ends an exchange that is cancelled or overdue, if it may end now.
  bool stop(size_t i, bool is_late, int64_t now);

  const Config& config_;
  Server& server_;
  Tickets& tickets_;
  Condition& condition_;
  const Log& log_;
  WakeFd wake_;
  Link link_;
  Inbox inbox_;
  Pipeline pipeline_;
  const Scratch scratch_;
  std::vector<iovec> outgoing_;
  bool is_up_ = false;       // the server was told so
  bool has_more_ = false;    // to be read, perhaps
  int64_t next_wake_ = 0;    // the nearest deadline or try
  int64_t begun_ = 0;        // connecting
  int64_t progress_ = 0;     // when bytes moved last, or nothing was due
  int64_t quiet_since_ = 0;  // when there was no end yet that is not told
};

}  // namespace quire::redis
