// The reader's side: loads, look-ups and removals of objects that peers have.
//
// A load asks for stretches of at most 2 MiB. While nothing of it is being received it can end at
// any moment: what comes for it then is dropped by UCX and written nowhere. Bytes that may be
// moving are waited for, for 20 ms if the load is given up; then the connection is closed by force.
// Only of a peer in the same host they end at once, and the connection stays.
#pragma once

#include <quire/connector.h>

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "plugins/ucx/ucx_asked_peer.h"
#include "plugins/ucx/ucx_finish.h"

namespace quire::ucx {

class Asking {
 public:
  Asking(const Config& config, Transport* transport, Finish* finish, const Log* log);

  // For a key that is not here. RESOURCE_EXHAUSTED, INVALID_ARGUMENT (the address): it did not
  // begin.
  quire_code load(const TicketRef& ticket, const Key& key, int64_t now);
  quire_code remove(const TicketRef& ticket, const Key& key, int64_t now);
  // For those keys whose size is 0 still.
  quire_code look_up(const TicketRef& ticket, int64_t now);
  // The ticket ends with the code as soon as nothing can move. False: it is not asked for here.
  bool give_up(uint64_t number, quire_code code, int64_t now);
  // What is due. When something will be next.
  int64_t tick(int64_t now);
  // No connection is left, and none is made.
  void close();

  void arrived(Arrival* arrival, int64_t now);
  void ended(std::unique_ptr<Transfer> transfer, int64_t now);
  void lost(Link* link, int64_t now);
  // None of the peers of the settings can be reached.
  bool is_down() const;

 private:
  AskedPeerRef peer_at(std::string_view text, const Address* address, int64_t now);
  quire_code targets_of(const Key& key, int64_t now, std::vector<AskedPeerRef>* out);
  quire_code begin(const TaskRef& task, const Key& key, int64_t now);
  void ask_next(const TaskRef& task, int64_t now);
  bool make_ready(AskedPeer* peer, int64_t now);
  void fill(AskedPeer* peer, int64_t now);
  void fill_loads(AskedPeer* peer, int64_t now);
  bool send_request(AskedPeer* peer, const RequestRef& request, Message* message, int64_t now);
  void greeted(AskedPeer* peer, const Message& message, int64_t now);
  void answered(AskedPeer* peer, const Message& message, int64_t now);
  void found(const RequestRef& request, const Message& message, int64_t now);
  void data(AskedPeer* peer, const Message& header, Arrival* arrival, int64_t now);
  void received(const RequestRef& request, bool is_whole, int64_t now);
  void part_ended(const RequestRef& request, bool is_answered);
  // What the peer has said to a load or a removal, or that it is lost.
  void target_failed(const TaskRef& task, quire_code code, int64_t now);
  void forget_requests(Task* task);
  void give_up_bytes(Task* task, int64_t now);
  void end_task(const TaskRef& task, quire_code code);
  void lose(AskedPeer* peer, std::string_view why, quire_code code, int64_t now);
  void beat(AskedPeer* peer, int64_t now);
  AskedPeerRef find(const AskedPeer* peer) const;
  static RequestRef taken(AskedPeer* peer, uint64_t id);

  const Config& config_;
  Transport& transport_;
  Finish& finish_;
  const Log& log_;
  std::unordered_map<std::string, AskedPeerRef> peers_;
  std::unordered_map<uint64_t, TaskRef> tasks_;  // by the number of the ticket
  uint64_t next_request_ = 1;
  uint64_t random_ = 0;
  bool is_closed_ = false;
};

}  // namespace quire::ucx
