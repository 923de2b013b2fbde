// Connections between processes of one host: messages at a Unix socket that keeps their borders,
// and bytes in memory that the owner makes and the reader may only read. The owner copies an
// object's bytes into a slot and says how many they are; the reader copies them to where they
// belong and gives the slot back. So each writes its own memory only, and what is given up ends at
// once. A process that dies takes its socket with it.
//
// Packets, each with its kind as the first byte:
//   message                  of ucx_wire.h
//   ring      owner only     the memory, before the first bytes
//   data      owner only     u64 bytes, u16 bytes of the header, header; few bytes follow at once
//   filled    owner only     u32 bytes: the next slot has them
//   given up  owner only     the rest of what was begun does not come
//   emptied   reader only    the oldest slot is free again
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "plugins/ucx/ucx_config.h"
#include "plugins/ucx/ucx_link.h"
#include "plugins/ucx/ucx_log.h"
#include "plugins/ucx/ucx_ring.h"

namespace quire::ucx {

// Where in the places of a transfer.
struct Way {
  size_t place = 0;
  uint64_t byte = 0;
};

struct NearLink final : Link {
  struct Packet {
    Bytes bytes;
    bool is_message = false;
  };
  struct Sending {
    std::unique_ptr<Transfer> transfer;  // nullptr: given up
    std::function<Bytes()> make_header;
    uint64_t bytes = 0;
  };

  int socket = -1;
  std::deque<Packet> packets;  // that the socket has not taken
  bool waits_for_room = false;
  Ring ring;
  uint32_t next_slot = 0;
  uint32_t filled = 0;    // slots that the reader has
  uint32_t emptied = 0;   // packets about that, not taken by the socket
  uint64_t left = 0;      // bytes of the transfer that was begun
  bool is_begun = false;  // the first of `sends`
  Way way;
  std::deque<Sending> sends;
  std::unique_ptr<Transfer> receiving;  // nullptr: nobody wants what is left
};

class Near final : public Medium {
 public:
  explicit Near(const Log* log) : log_(*log) {}
  ~Near() override;
  Near(const Near&) = delete;
  Near& operator=(const Near&) = delete;

  // other_fd: makes fd() readable, too. Errors: RESOURCE_EXHAUSTED.
  Outcome open(int other_fd);
  // Without its name others come over UCX: this cannot fail.
  void listen(const Address& address, uint16_t port);
  int fd() const { return fd_; }
  bool progress(Events* events);
  // Whether the thread may sleep until fd() is readable.
  bool arm() const { return ends_.empty() && !any_lost_ && !can_send(); }
  // Bytes are on the way.
  bool is_streaming() const;
  // No descriptors are left for peers: the thread asks again soon.
  bool is_full() const { return is_full_; }

  // nullptr: nobody of this host and user listens there.
  Link* connect(const Address& address);
  Link* accept(int socket);
  static void reject(int socket);
  bool send(Link* link, Bytes message) override;
  void send(Link* link, std::unique_ptr<Transfer> transfer) override;
  void receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) override;
  void drop(Arrival* arrival) override { arrival->waiting = nullptr; }
  void give_up(Link* link, const void* whose) override;
  void close(Link* link) override;
  bool is_quiet() const { return links_.empty(); }
  // In a child of fork(): its copies of the descriptors, so that they end with this process.
  void leave_in_child();

 private:
  NearLink* add(int socket);
  void watch(NearLink* link, bool for_room);
  void accept_some(Events* events);
  void lose(NearLink* link, const char* why, bool is_wrong = false);
  void take_lost(Events* events);
  void forget_closed();

  // Packets.
  void post(NearLink* link, Bytes bytes, bool is_message = false);
  void flush(NearLink* link);
  bool give(NearLink* link, const Bytes& bytes);
  void wrote(NearLink* link, const NearLink::Packet& packet);
  void read(NearLink* link, Events* events);
  void take(NearLink* link, std::span<const uint8_t> packet, int fd, Events* events);
  void take_ring(NearLink* link, int fd);
  void take_data(NearLink* link, std::span<const uint8_t> rest, Events* events);
  void take_filled(NearLink* link, std::span<const uint8_t> rest);
  void take_given_up(NearLink* link);
  // Bytes.
  bool can_send() const;
  static bool can_send(const NearLink& link);
  bool send_some(NearLink* link);
  bool send_ring(NearLink* link);
  void begin(NearLink* link);
  void fill(NearLink* link);

  const Log& log_;
  int fd_ = -1;
  int listener_ = -1;
  bool is_full_ = false;
  std::vector<std::unique_ptr<NearLink>> links_;
  bool any_lost_ = false;
  bool any_closed_ = false;
  std::vector<uint8_t> packet_;  // the one that is being read
  Ends ends_;
};

}  // namespace quire::ucx
