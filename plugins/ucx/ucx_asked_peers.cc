// Of the reader's side: connections, from the first try to their loss.
#include <algorithm>
#include <utility>

#include "plugins/common/nanoseconds.h"
#include "plugins/ucx/ucx_asking.h"

namespace quire::ucx {
namespace {

using plugins::kMillisecond;
using plugins::kSecond;

constexpr int64_t kShortestPause = 50 * kMillisecond;  // after a peer was lost
constexpr int64_t kLongestPause = 5 * kSecond;

}  // namespace

// Whether it can be asked, now or when it has greeted.
bool Asking::make_ready(AskedPeer* peer, int64_t now) {
  if (is_closed_ || (peer->state == AskedPeer::State::kDown && now < peer->next_try)) return false;
  if (peer->state != AskedPeer::State::kDown) return true;
  Message hello;
  hello.kind = Kind::kHello;
  hello.version = kVersion;
  peer->code = QUIRE_UNAVAILABLE;
  peer->state = AskedPeer::State::kConnecting;
  peer->since = now;
  if (!fill_random(peer->nonce)) {
    lose(peer, "the kernel gives no random bytes", QUIRE_UNAVAILABLE, now);
    return false;
  }
  hello.nonce = peer->nonce;
  peer->link = transport_.connect(peer->address, !peer->avoids_near);
  if (peer->link != nullptr) peer->link->user = peer;
  if (peer->link != nullptr && transport_.send(peer->link, encode(hello))) return true;
  lose(peer, "it cannot be connected", QUIRE_UNAVAILABLE, now);
  return false;
}

void Asking::greeted(AskedPeer* peer, const Message& message, int64_t now) {
  if (message.kind == Kind::kRefuse || message.version != kVersion) {
    return lose(peer, "it speaks version " + std::to_string(message.version) + " of the protocol, and this one 1",
                QUIRE_FAILED_PRECONDITION, now);
  }
  const Handshake handshake(config_.secret, peer->nonce, message.nonce, message.lease_ms);
  if (!equal_macs(handshake.proof_of_owner(), message.mac)) {
    return lose(peer, "it does not have the secret of this instance", QUIRE_PERMISSION_DENIED, now);
  }
  Message confirm;
  confirm.kind = Kind::kConfirm;
  confirm.mac = handshake.proof_of_reader();
  if (!transport_.send(peer->link, encode(confirm))) return lose(peer, "it takes no messages", QUIRE_UNAVAILABLE, now);
  peer->session.emplace(handshake.key_to_owner(), handshake.key_to_reader());
  peer->state = AskedPeer::State::kUp;
  peer->lease_ns = std::max<int64_t>(int64_t{message.lease_ms} * kMillisecond, 3 * kMillisecond);
  peer->progress = now;
  peer->next_beat = peer->interests.empty() ? INT64_MAX : now;
  log_.say(QUIRE_LOG_INFO, {"peer ", peer->address.text, " is connected over ", peer->link->is_near ? "shared memory" : "UCX"});
  fill(peer, now);
}

void Asking::lost(Link* link, int64_t now) {
  auto* const peer = static_cast<AskedPeer*>(link->user);
  if (peer != nullptr && peer->link == link) lose(peer, link->why, QUIRE_UNAVAILABLE, now);
}

// Whatever it owed will not come. Bytes that are being received end by themselves, for the connection is closed by force.
void Asking::lose(AskedPeer* peer, std::string_view why, quire_code code, int64_t now) {
  if (peer->state == AskedPeer::State::kDown) return;
  const AskedPeerRef keep = find(peer);
  std::vector<RequestRef> owed;  // all that takes memory is taken before anything changes
  std::vector<TaskRef> failed;
  owed.reserve(peer->waiting.size() + peer->requests.size());
  failed.reserve(peer->loads.size() + peer->waiting.size() + peer->requests.size());
  log_.say(QUIRE_LOG_WARN, {"peer ", peer->address.text, " is lost: ", why});
  const bool is_near = peer->link != nullptr && peer->link->is_near;
  peer->avoids_near = is_near && (peer->state == AskedPeer::State::kConnecting || (peer->wanted_bytes != 0 && !peer->link->has_streamed));
  if (peer->link != nullptr) {
    peer->link->user = nullptr;
    transport_.close(peer->link);
  }
  peer->link = nullptr;
  peer->session.reset();
  peer->state = AskedPeer::State::kDown;
  peer->code = code;
  peer->pause = std::clamp(2 * peer->pause, kShortestPause, kLongestPause);
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  peer->next_try = now + peer->pause - static_cast<int64_t>((random_ >> 33) % static_cast<uint64_t>(peer->pause / 4));
  owed.assign(peer->waiting.begin(), peer->waiting.end());
  for (const auto& [id, request] : peer->requests) {
    peer->wanted_bytes -= request->stretch.bytes;
    owed.push_back(request);
  }
  peer->requests.clear();
  peer->forgotten = 0;
  peer->waiting.clear();
  failed.assign(peer->loads.begin(), peer->loads.end());
  peer->loads.clear();
  for (const RequestRef& request : owed) {
    if (request->kind == Kind::kLookup) {
      part_ended(request, false);
    } else if (std::find(failed.begin(), failed.end(), request->task) == failed.end()) {
      failed.push_back(request->task);
    }
  }
  for (const TaskRef& task : failed) {
    if (task->peer() == peer) target_failed(task, code, now);
  }
}

// Look-ups of what has a lease that somebody counts on.
void Asking::beat(AskedPeer* peer, int64_t now) {
  std::erase_if(peer->interests, [&](const auto& entry) { return entry.second.until <= now; });
  peer->next_beat = peer->interests.empty() ? INT64_MAX : now + peer->lease_ns / 3;
  if (peer->interests.empty() || !make_ready(peer, now) || peer->state != AskedPeer::State::kUp) return;
  RequestRef request;
  for (const auto& [name, interest] : peer->interests) {
    if (request == nullptr) {
      request = std::make_shared<Request>();
      request->kind = Kind::kLookup;
      request->peer = find(peer);
    }
    request->keys.push_back(interest.key);
    if (request->keys.size() == kMostKeys) peer->waiting.push_back(std::exchange(request, nullptr));
  }
  if (request != nullptr) peer->waiting.push_back(std::move(request));
  fill(peer, now);
}

int64_t Asking::tick(int64_t now) {
  int64_t next = INT64_MAX;
  std::vector<AskedPeerRef> all;
  all.reserve(peers_.size());
  for (const auto& [name, peer] : peers_) all.push_back(peer);
  for (const AskedPeerRef& peer : all) {
    if (peer->hurry <= now) lose(peer.get(), "bytes that nobody wants any more do not come", QUIRE_UNAVAILABLE, now);
    if (peer->state == AskedPeer::State::kConnecting && now - peer->since >= config_.connect_timeout_ns) {
      lose(peer.get(), "it does not greet within connect_timeout_ms", QUIRE_UNAVAILABLE, now);
    }
    if (peer->state == AskedPeer::State::kUp && peer->owes() && now - peer->progress >= config_.timeout_ns) {
      lose(peer.get(), "nothing of what it owes came within timeout_ms", QUIRE_UNAVAILABLE, now);
    }
    if (peer->next_beat <= now) beat(peer.get(), now);
    next = std::min({next, peer->hurry > now ? peer->hurry : INT64_MAX, peer->next_beat});
    if (peer->state == AskedPeer::State::kConnecting) next = std::min(next, peer->since + config_.connect_timeout_ns);
    if (peer->state == AskedPeer::State::kUp && peer->owes()) next = std::min(next, peer->progress + config_.timeout_ns);
  }
  return next;
}

AskedPeerRef Asking::find(const AskedPeer* peer) const {
  const auto found = peers_.find(peer->address.text);
  return found != peers_.end() ? found->second : nullptr;
}

bool Asking::is_down() const {
  return !config_.peers.empty() && std::all_of(config_.peers.begin(), config_.peers.end(), [&](const Address& address) {
    const auto found = peers_.find(address.text);
    return found != peers_.end() && found->second->state == AskedPeer::State::kDown && found->second->pause != 0;
  });
}

void Asking::close() {
  is_closed_ = true;
  for (const auto& [name, peer] : peers_) {
    if (peer->link == nullptr) continue;
    peer->link->user = nullptr;
    transport_.close(peer->link);
    peer->link = nullptr;
    peer->state = AskedPeer::State::kDown;
  }
}

}  // namespace quire::ucx
