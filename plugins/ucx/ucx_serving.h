// The owner's side: who has connected, and what is sent to them. A peer that has not shown that it
// has the secret can do nothing but show it, and has little time for that. All that it says is
// checked before anything of it is used; what cannot be ends its connection.
#pragma once

#include <quire/connector.h>

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "plugins/ucx/ucx_offers.h"
#include "plugins/ucx/ucx_seal.h"
#include "plugins/ucx/ucx_transport.h"

namespace quire::ucx {

class Serving {
 public:
  Serving(const Config& config, Transport* transport, Offers* offers, const Log* log);

  void knocked(Knock knock, int64_t now);
  void arrived(Arrival* arrival, int64_t now);
  void ended(std::unique_ptr<Transfer> transfer, int64_t now);
  void lost(Link* link, int64_t now);
  // Transfers that read the object end soon: by themselves, or with their connections.
  void hurry(const ObjectRef& object, int64_t now);
  int64_t tick(int64_t now);
  void close();

  uint64_t num_peers() const { return peers_.size(); }

 private:
  enum class State { kNew, kGreeted, kUp };
  struct Peer {
    Link* link = nullptr;
    State state = State::kNew;
    int64_t since = 0;     // it has connected
    int64_t progress = 0;  // it took something last, or nothing was sent to it
    Nonce nonce_of_reader = {};
    Nonce nonce = {};
    std::optional<Session> session;
    std::unordered_map<Transfer*, ObjectRef> sends;
    uint64_t staged_bytes = 0;
  };
  struct Hurry {
    ObjectRef object;
    int64_t at = 0;
  };

  void greet(Peer* peer, const Message& message);
  void confirm(Peer* peer, const Message& message);
  void look_up(Peer* peer, const Message& message, int64_t now);
  void want(Peer* peer, const Message& message, int64_t now);
  void done(Peer* peer, const Message& message, int64_t now);
  void answer(Peer* peer, uint64_t request, Verdict verdict);
  bool collect(Peer* peer, const Object& object, const Message& message, uint64_t bytes,  //
               Transfer* out);
  void send(Peer* peer, Message* message);
  void lose(Peer* peer, std::string_view why);
  uint32_t lease_ms() const;

  const Config& config_;
  Transport& transport_;
  Offers& offers_;
  const Log& log_;
  std::unordered_map<Link*, std::unique_ptr<Peer>> peers_;
  uint32_t num_opening_ = 0;
  bool is_closed_ = false;
  std::vector<Hurry> hurries_;
};

}  // namespace quire::ucx
