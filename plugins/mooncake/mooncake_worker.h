// The threads of a store: each takes a ticket, calls the library for it, and moves its bytes between
// the ticket's memory and staging. What they share outlives the connector, for a thread may be in a
// call that has not returned when the connector is closed. The last one to leave ends the store.
#pragma once

#include <quire/connector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/mooncake/mooncake_config.h"
#include "plugins/mooncake/mooncake_library.h"
#include "plugins/mooncake/mooncake_session.h"
#include "plugins/mooncake/mooncake_tickets.h"
#include "plugins/mooncake/sizes.h"

namespace quire::mooncake {

struct Shared {
  Shared(const quire_host_api& host, const Config& settings, const Library& functions)
      : config(settings), library(functions), tickets(host, config), num_at_work(config.threads) {}

  std::shared_ptr<Session> session();
  // Gives the session that was there back; if nobody else has it, it ends here.
  void set_session(std::shared_ptr<Session> session);

  const Config config;
  const Library library;
  Tickets tickets;
  Sizes sizes;
  std::atomic<uint64_t> num_damaged{0};
  std::atomic<int64_t> full_until{0};  // monotonic
  std::atomic<uint32_t> num_at_work;   // workers

 private:
  std::mutex lock_;
  std::shared_ptr<Session> session_;
  std::weak_ptr<Session> ending_;  // the one before, while calls are in it
  friend class Worker;
};

class Worker {
 public:
  Worker(std::shared_ptr<Shared> shared, uint32_t number) : shared_(std::move(shared)), number_(number) {}
  // Until the tickets are closed; and if a call does not return then, until it does.
  void run();

 private:
  // A buffer of a session.
  class Staging {
   public:
    explicit Staging(std::shared_ptr<Session> session) : session_(std::move(session)), bytes_(session_->take()) {}
    ~Staging() {
      if (bytes_ != nullptr) session_->give_back(bytes_, is_settled_);
    }
    Staging(Staging&& other) noexcept
        : session_(std::move(other.session_)), bytes_(std::exchange(other.bytes_, nullptr)), is_settled_(other.is_settled_) {}
    Staging& operator=(Staging&&) = delete;
    uint8_t* bytes() const { return bytes_; }
    // Without an end the buffer is quarantined.
    void begin_transfer() { is_settled_ = false; }
    void end_transfer() { is_settled_ = true; }

   private:
    std::shared_ptr<Session> session_;
    uint8_t* bytes_;
    bool is_settled_ = true;
  };

  void loop();
  void serve(Ticket* ticket);
  void store(Ticket* ticket);
  void load(Ticket* ticket);
  void look_up(Ticket* ticket);
  void remove(Ticket* ticket);

  bool may_call(Ticket* ticket, bool changes = false) { return shared_->tickets.may_call(number_, ticket, changes); }
  // Ends the ticket with what the answer means.
  void fail(Ticket* ticket, const char* function, int64_t answer);
  // Without bytes: none is free, and the ticket has ended.
  Staging take_staging(Ticket* ticket);
  bool gather(Ticket* ticket, uint8_t* to);
  // Reads the value; once more if it is wrong, or its lease has expired. The size of the object; 0:
  // the ticket has ended; below 0: what the library answered.
  int64_t fetch(Ticket* ticket, const std::string& key, Staging* staging);
  bool is_too_large(Ticket* ticket, const std::string& key);
  void deliver(Ticket* ticket, uint64_t object_bytes, const uint8_t* from);
  // The size of what exists; 0: it is nothing that was stored here, or gone.
  int64_t size_of(Ticket* ticket, const std::string& name, const std::string& key);
  void drop_damaged(const std::string& key, const std::string& name);
  void complain(const char* function, int64_t answer);
  Outcome try_store();
  Outcome ask_master();

  const std::shared_ptr<Shared> shared_;
  const uint32_t number_;
  std::shared_ptr<Session> session_;  // of the ticket at work
};

// The key as Mooncake has it: the prefix and base16.
std::string name_of_key(const std::string& prefix, std::string_view key);

}  // namespace quire::mooncake
