#include "plugins/ucx/ucx_serving.h"

#include <algorithm>
#include <utility>

#include "plugins/common/nanoseconds.h"

namespace quire::ucx {
namespace {

constexpr uint32_t kMostOpening = 64;                           // peers that have not shown the secret
constexpr size_t kMostSends = 160;                              // to a peer; one that keeps to the protocol wants 128
constexpr uint64_t kMostStaged = uint64_t{64} << 20;            // bytes of a peer that are copied for it
constexpr int64_t kGraceOfCancel = 20 * plugins::kMillisecond;  // for transfers of an offer that was cancelled

}  // namespace

Serving::Serving(const Config& config, Transport* transport, Offers* offers, const Log* log)
    : config_(config), transport_(*transport), offers_(*offers), log_(*log) {}

uint32_t Serving::lease_ms() const { return static_cast<uint32_t>(offers_.lease_ns() / plugins::kMillisecond); }

void Serving::knocked(Knock knock, int64_t now) {
  if (is_closed_ || peers_.size() >= config_.max_peers || num_opening_ >= kMostOpening) return transport_.reject(knock);
  auto peer = std::make_unique<Peer>();
  peer->since = now;
  Link* const link = transport_.accept(knock);
  if (link == nullptr) return;
  peer->link = link;
  ++num_opening_;
  peers_.emplace(link, std::move(peer));
}

void Serving::arrived(Arrival* arrival, int64_t now) {
  const auto found = peers_.find(arrival->link);
  if (found == peers_.end()) return;
  Peer* const peer = found->second.get();
  if (arrival->is_data) return lose(peer, "it sends bytes that nobody asked for");
  if (peer->state != State::kUp) {
    const auto message = decode(arrival->message);
    if (message && message->kind == Kind::kHello && peer->state == State::kNew) return greet(peer, *message);
    if (message && message->kind == Kind::kConfirm && peer->state == State::kGreeted) return confirm(peer, *message);
    return lose(peer, "it does not greet");
  }
  const auto message = peer->session->open(arrival->message);
  if (!message) return lose(peer, "it sent what is no message of this connection");
  switch (message->kind) {
    case Kind::kLookup:
      return look_up(peer, *message, now);
    case Kind::kWant:
      return want(peer, *message, now);
    case Kind::kDone:
      return done(peer, *message, now);
    default:
      return lose(peer, "it sends what only owners send");
  }
}

void Serving::greet(Peer* peer, const Message& message) {
  Message welcome;
  welcome.version = kVersion;
  welcome.kind = message.version == kVersion ? Kind::kWelcome : Kind::kRefuse;
  welcome.lease_ms = lease_ms();
  if (!fill_random(peer->nonce)) return lose(peer, "the kernel gives no random bytes");
  peer->nonce_of_reader = message.nonce;
  welcome.nonce = peer->nonce;
  welcome.mac = Handshake(config_.secret, peer->nonce_of_reader, peer->nonce, lease_ms()).proof_of_owner();
  if (!transport_.send(peer->link, encode(welcome))) return lose(peer, "it takes no messages");
  peer->state = State::kGreeted;  // one that was refused has its time to read that
}

void Serving::confirm(Peer* peer, const Message& message) {
  const Handshake handshake(config_.secret, peer->nonce_of_reader, peer->nonce, lease_ms());
  if (!equal_macs(handshake.proof_of_reader(), message.mac)) return lose(peer, "it does not have the secret of this instance");
  peer->session.emplace(handshake.key_to_reader(), handshake.key_to_owner());
  peer->state = State::kUp;
  --num_opening_;
}

// The first key is the most recent one, so it is touched last.
void Serving::look_up(Peer* peer, const Message& message, int64_t now) {
  Message found;
  found.kind = Kind::kFound;
  found.request = message.request;
  found.leased = message.lease_ms != 0;
  found.sizes.assign(message.keys.size(), 0);
  for (size_t i = message.keys.size(); i-- > 0;) {
    const ObjectRef object = offers_.find(message.keys[i], now);
    if (object == nullptr) continue;
    found.sizes[i] = object->bytes;
    offers_.touch(object);
    if (found.leased) offers_.renew(object, now + offers_.lease_ns());
  }
  send(peer, &found);
}

void Serving::want(Peer* peer, const Message& message, int64_t now) {
  if (peer->sends.size() >= kMostSends) return lose(peer, "it wants more at once than may be");
  const ObjectRef object = offers_.find(message.keys[0], now);
  if (object == nullptr) return answer(peer, message.request, Verdict::kNotFound);
  const auto bytes = sum_of(message.ranges, kMostWanted);
  const bool is_inside = bytes && std::all_of(message.ranges.begin(), message.ranges.end(), [&](const Range& range) {
                           return range.offset <= object->bytes && range.bytes <= object->bytes - range.offset;
                         });
  if (!is_inside) return answer(peer, message.request, Verdict::kOutOfRange);
  auto transfer = std::make_unique<Transfer>();
  if (!collect(peer, *object, message, *bytes, transfer.get())) return answer(peer, message.request, Verdict::kBusy);
  Message header;
  header.kind = Kind::kData;
  header.request = message.request;
  header.bytes = transfer->bytes = *bytes;
  transfer->make_header = [session = &*peer->session, header]() mutable { return session->seal(&header); };
  transfer->about = object;
  transfer->whose = object.get();
  offers_.touch(object);
  if (peer->sends.empty()) peer->progress = now;
  peer->sends.emplace(transfer.get(), object);
  peer->staged_bytes += transfer->staged.size();
  offers_.begin_use(object);
  transport_.send(peer->link, std::move(transfer));
}

// Where the bytes are. Few bytes, and many pieces, are copied. False: so much of that peer is copied already.
bool Serving::collect(Peer* peer, const Object& object, const Message& message, uint64_t bytes, Transfer* out) {
  std::vector<plugins::Extent> extents;
  bool are_few = bytes > kMostEager;
  for (const Range& range : message.ranges) are_few = are_few && Offers::collect(object, range, kMostExtents, &extents);
  if (are_few) {
    out->places.reserve(extents.size());
    for (const plugins::Extent& extent : extents) out->places.push_back({extent.memory, extent.bytes});
    return true;
  }
  if (bytes > kMostStaged - std::min(kMostStaged, peer->staged_bytes)) return false;
  out->staged.resize(bytes);
  uint64_t at = 0;
  for (const Range& range : message.ranges) {
    Offers::gather(object, range, out->staged.data() + at);
    at += range.bytes;
  }
  if (bytes > kMostEager) out->places.push_back({out->staged.data(), bytes});
  return true;
}

// Only who has the handle of an object can take it away from others.
void Serving::done(Peer* peer, const Message& message, int64_t now) {
  if (message.keys[0].names_all()) {
    offers_.expire(now);
    return answer(peer, message.request, offers_.remove_all(message.keys[0].handle, QUIRE_OK) ? Verdict::kOk : Verdict::kNotFound);
  }
  const ObjectRef object = offers_.find(message.keys[0], now);
  if (object == nullptr) return answer(peer, message.request, Verdict::kNotFound);
  if (!object->key.has_handle()) return answer(peer, message.request, Verdict::kNotYours);
  offers_.remove(object, QUIRE_OK);
  answer(peer, message.request, Verdict::kOk);
}

void Serving::answer(Peer* peer, uint64_t request, Verdict verdict) {
  Message message;
  message.kind = Kind::kAnswer;
  message.request = request;
  message.verdict = verdict;
  send(peer, &message);
}

void Serving::send(Peer* peer, Message* message) {
  if (!transport_.send(peer->link, peer->session->seal(message))) lose(peer, "it does not take its answers");
}

void Serving::ended(std::unique_ptr<Transfer> transfer, int64_t now) {
  const auto found = peers_.find(transfer->link);
  if (found != peers_.end()) {
    Peer* const peer = found->second.get();
    peer->sends.erase(transfer.get());
    peer->staged_bytes -= transfer->staged.size();
    peer->progress = now;
  }
  offers_.end_use(std::static_pointer_cast<Object>(transfer->about));
}

void Serving::lost(Link* link, int64_t /*now*/) {
  if (const auto found = peers_.find(link); found != peers_.end()) lose(found->second.get(), link->why);
}

// What is being sent to it ends by itself, for the connection is closed by force.
void Serving::lose(Peer* peer, std::string_view why) {
  const bool is_wrong = peer->state != State::kUp || why.starts_with("it ");
  log_.say(is_wrong ? QUIRE_LOG_WARN : QUIRE_LOG_INFO, {"a peer that reads here is lost: ", why});
  if (peer->state != State::kUp) --num_opening_;
  Link* const link = peer->link;
  peers_.erase(link);
  transport_.close(link);
}

void Serving::hurry(const ObjectRef& object, int64_t now) {
  hurries_.push_back({object, now + kGraceOfCancel});
  for (const auto& [link, peer] : peers_) transport_.give_up(link, object.get());
}

int64_t Serving::tick(int64_t now) {
  int64_t next = INT64_MAX;
  std::vector<std::pair<Peer*, const char*>> slow;
  for (const auto& [link, peer] : peers_) {
    const int64_t limit = peer->state != State::kUp ? peer->since + config_.connect_timeout_ns
                          : !peer->sends.empty()    ? peer->progress + config_.timeout_ns
                                                    : INT64_MAX;
    const bool reads_cancelled = std::any_of(hurries_.begin(), hurries_.end(), [&, own = peer.get()](const Hurry& hurry) {
      return hurry.at <= now &&
             std::any_of(own->sends.begin(), own->sends.end(), [&](const auto& send) { return send.second == hurry.object; });
    });
    if (limit <= now || reads_cancelled) {
      slow.emplace_back(peer.get(), peer->state != State::kUp ? "it does not show within connect_timeout_ms that it has the secret"
                                    : reads_cancelled         ? "it reads an offer that was cancelled"
                                                              : "it took nothing within timeout_ms");
    } else {
      next = std::min(next, limit);
    }
  }
  for (const auto& [peer, why] : slow) lose(peer, why);
  std::erase_if(hurries_, [&](const Hurry& hurry) { return hurry.at <= now; });
  for (const Hurry& hurry : hurries_) next = std::min(next, hurry.at);
  return next;
}

void Serving::close() {
  is_closed_ = true;
  for (const auto& [link, peer] : std::exchange(peers_, {})) transport_.close(link);
  num_opening_ = 0;
}

}  // namespace quire::ucx
