// Between the threads of the host and the thread of the store: tickets and wishes one way,
// completions the other. No call waits for the store but receive and await_listing.
#pragma once

#include <quire/connector.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "plugins/file/directory.h"

namespace quire::file {

inline constexpr uint32_t kMaxTickets = 4096;  // accepted and not polled

// A ticket with copies of what it refers to.
struct Ticket {
  quire_ticket fields = {};
  std::vector<quire_ticket_run> runs;
  std::string keys;
  int64_t used = 0;  // of its first key; each further one is one less

  std::string_view key(size_t i = 0) const {
    const uint64_t bytes = fields.key_bytes;
    return std::string_view(keys).substr(i * bytes, bytes);
  }
};

// A call of list, answered by the store's thread.
struct Listing {
  uint64_t cursor = 0;
  std::span<quire_object_entry> items;
  std::span<uint8_t> keys;
  uint64_t count = 0;
  Outcome outcome;
  bool is_done = false;
};

// What the store's thread finds.
struct Mail {
  std::vector<std::unique_ptr<Ticket>> tickets;
  std::vector<uint64_t> cancelled;
  std::vector<Listing*> listings;
  bool closing = false;
};

class Mailbox {
 public:
  // Errors: RESOURCE_EXHAUSTED (an eventfd).
  Outcome open();

  // Threads of the host.
  // Accepts tickets from the first on. False: a number is in flight already; *accepted says which.
  bool send(std::span<std::unique_ptr<Ticket>> tickets, uint64_t* accepted);
  // False: it is not in flight.
  bool cancel(uint64_t ticket);
  uint64_t receive(int64_t timeout_ns, std::span<quire_completion> items);
  int file() const { return file_.number(); }  // readable while completions wait
  void send_listing(Listing* listing);
  void await_listing(Listing* listing);  // waits for the store's thread
  void close();
  void leave() { file_.reset(); }  // in a child of fork()

  // The store's thread.
  Mail take();
  void complete(const quire_completion& completion);
  void answer(Listing* listing);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;  // completions
  std::condition_variable listed_;
  Mail mail_;
  std::unordered_set<uint64_t> in_flight_;
  // A ring.
  std::vector<quire_completion> completions_ = std::vector<quire_completion>(kMaxTickets);
  size_t first_ = 0;
  size_t num_waiting_ = 0;
  File file_;
  int64_t last_use_ = 0;
};

}  // namespace quire::file
