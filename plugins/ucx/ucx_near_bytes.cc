// Of connections in one host: packets, and bytes in slots.
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "plugins/common/stream_copy.h"
#include "plugins/ucx/ucx_near.h"

namespace quire::ucx {
namespace {

enum class PacketKind : uint8_t { kMessage = 1, kRing = 2, kData = 3, kFilled = 4, kGivenUp = 5, kEmptied = 6 };

constexpr int kPacketsOfTurn = 16;
constexpr int kSlotsOfTurn = 2;
constexpr size_t kMostSending = 1024;  // of a connection, with those that were given up

Bytes packet_of(PacketKind kind) { return Bytes(1, static_cast<uint8_t>(kind)); }

template <typename Number>
void put(Bytes* to, Number value) {
  for (size_t i = 0; i < sizeof value; ++i) to->push_back(static_cast<uint8_t>(uint64_t{value} >> (8 * i)));
}

template <typename Number>
Number get(std::span<const uint8_t>* from) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(Number); ++i) value |= uint64_t{(*from)[i]} << (8 * i);
  *from = from->subspan(sizeof(Number));
  return static_cast<Number>(value);
}

// Calls move(memory, from, bytes) for the next `bytes` of the places; `from` counts them.
template <typename Move>
void walk(const std::vector<ucp_dt_iov_t>& places, Way* way, uint64_t bytes, Move move) {
  for (uint64_t from = 0; from < bytes;) {
    const ucp_dt_iov_t& place = places[way->place];
    const uint64_t part = std::min<uint64_t>(place.length - way->byte, bytes - from);
    move(static_cast<uint8_t*>(place.buffer) + way->byte, from, part);
    from += part;
    way->byte += part;
    if (way->byte < place.length) continue;
    way->byte = 0;
    ++way->place;
  }
}

}  // namespace

// ---- Out ----

bool Near::send(Link* link, Bytes message) {
  if (link->unsent >= kMostUnsent) return false;
  Bytes packet = packet_of(PacketKind::kMessage);
  packet.insert(packet.end(), message.begin(), message.end());
  post(static_cast<NearLink*>(link), std::move(packet), true);
  return true;
}

// False: the socket has no room, or the link is lost.
bool Near::give(NearLink* link, const Bytes& bytes) {
  if (link->is_lost || link->is_closed) return false;
  ssize_t sent = 0;
  do {
    sent = ::send(link->socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno != EAGAIN && errno != ENOBUFS) lose(link, "its process has closed the connection");
  return sent >= 0;
}

void Near::post(NearLink* link, Bytes bytes, bool is_message) {
  if (link->packets.empty() && give(link, bytes)) return;
  if (link->is_lost || link->is_closed) return;
  link->packets.push_back({std::move(bytes), is_message});
  const NearLink::Packet& packet = link->packets.back();
  if (is_message) ++link->unsent;
  if (packet.bytes[0] == static_cast<uint8_t>(PacketKind::kEmptied)) ++link->emptied;
  watch(link, true);
}

void Near::wrote(NearLink* link, const NearLink::Packet& packet) {
  if (packet.is_message) --link->unsent;
  if (packet.bytes[0] == static_cast<uint8_t>(PacketKind::kEmptied)) --link->emptied;
}

void Near::flush(NearLink* link) {
  while (!link->packets.empty() && give(link, link->packets.front().bytes)) {
    wrote(link, link->packets.front());
    link->packets.pop_front();
  }
  if (!link->is_lost && !link->is_closed) watch(link, !link->packets.empty());
}

// ---- Bytes that leave ----

void Near::send(Link* link, std::unique_ptr<Transfer> transfer) {
  auto* const own = static_cast<NearLink*>(link);
  transfer->link = link;
  ++link->in_flight;
  try {
    if (own->sends.size() < kMostSending && !own->is_lost) {
      own->sends.push_back({nullptr, std::move(transfer->make_header), transfer->bytes});
      own->sends.back().transfer = std::move(transfer);
      return;
    }
    lose(own, "it does not take what it asked for");
  } catch (const std::bad_alloc&) {
    lose(own, "no memory for what it asks for");
  }
  ends_.add(transfer.release(), UCS_ERR_NO_MEMORY);
}

// What of it lies in slots are copies already.
void Near::give_up(Link* link, const void* whose) {
  auto* const own = static_cast<NearLink*>(link);
  if (own->receiving != nullptr && own->receiving->whose == whose) ends_.add(own->receiving.release(), UCS_ERR_CANCELED);
  for (NearLink::Sending& sending : own->sends) {
    if (sending.transfer == nullptr || sending.transfer->whose != whose) continue;
    ends_.add(sending.transfer.release(), UCS_ERR_CANCELED);
  }
}

bool Near::can_send(const NearLink& link) {
  if (link.sends.empty() || link.is_lost || link.is_closed || link.waits_for_room) return false;
  return !link.is_begun || link.sends.front().transfer == nullptr || link.filled < kSlots;
}

bool Near::can_send() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return can_send(*link); });
}

bool Near::is_streaming() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->receiving != nullptr || link->is_begun; });
}

bool Near::send_some(NearLink* link) {
  try {
    for (int i = 0; i < kSlotsOfTurn && can_send(*link); ++i) {
      if (!link->is_begun) begin(link);
      if (link->is_begun && can_send(*link)) fill(link);
    }
  } catch (const std::bad_alloc&) {
    lose(link, "no memory for what it asks for");
  }
  return true;
}

// Few bytes come with the header, and it is over.
void Near::begin(NearLink* link) {
  NearLink::Sending& sending = link->sends.front();
  const Transfer* const transfer = sending.transfer.get();
  const bool is_small = transfer != nullptr && transfer->places.empty();
  if (transfer != nullptr && !is_small && !link->ring.is_there() && !send_ring(link)) return;
  const Bytes header = sending.make_header ? sending.make_header() : Bytes();
  Bytes packet = packet_of(PacketKind::kData);
  packet.reserve(16 + header.size() + (is_small ? transfer->staged.size() : 0));
  put(&packet, sending.bytes);
  put(&packet, static_cast<uint16_t>(header.size()));
  packet.insert(packet.end(), header.begin(), header.end());
  if (is_small) packet.insert(packet.end(), transfer->staged.begin(), transfer->staged.end());
  post(link, std::move(packet));
  link->left = sending.bytes;
  link->way = {};
  link->is_begun = !is_small;
  if (!is_small) return;
  ends_.add(sending.transfer.release(), UCS_OK);
  link->sends.pop_front();
}

// False: the socket has no room now, or the link is lost.
bool Near::send_ring(NearLink* link) {
  Ring ring;
  const int fd = ring.make();
  if (fd < 0) {
    lose(link, "there is no shared memory for it");
    return false;
  }
  uint8_t kind = static_cast<uint8_t>(PacketKind::kRing);
  iovec bytes = {&kind, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const about = CMSG_FIRSTHDR(&message);
  about->cmsg_level = SOL_SOCKET;
  about->cmsg_type = SCM_RIGHTS;
  about->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(about), &fd, sizeof fd);
  const ssize_t sent = sendmsg(link->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  const int error = errno;
  ::close(fd);
  if (sent >= 0) {
    link->ring.swap(&ring);
  } else if (error == EAGAIN || error == ENOBUFS || error == EINTR) {
    watch(link, true);
  } else {
    lose(link, "its process takes no shared memory");
  }
  return sent >= 0;
}

void Near::fill(NearLink* link) {
  NearLink::Sending& sending = link->sends.front();
  if (sending.transfer == nullptr) {
    post(link, packet_of(PacketKind::kGivenUp));
    link->is_begun = false;
    link->sends.pop_front();
    return;
  }
  const uint64_t bytes = std::min(link->left, kSlotBytes);
  uint8_t* const slot = link->ring.slot(link->next_slot);
  walk(sending.transfer->places, &link->way, bytes,
       [&](const uint8_t* memory, uint64_t at, uint64_t part) { std::memcpy(slot + at, memory, part); });
  link->next_slot = (link->next_slot + 1) % kSlots;
  ++link->filled;
  link->left -= bytes;
  Bytes packet = packet_of(PacketKind::kFilled);
  put(&packet, static_cast<uint32_t>(bytes));
  post(link, std::move(packet));
  if (link->left != 0) return;
  ends_.add(sending.transfer.release(), UCS_OK);
  link->is_begun = false;
  link->sends.pop_front();
}

// ---- In ----

// A served peer passes no descriptors: there is no room for them, and the kernel says so.
void Near::read(NearLink* link, Events* events) {
  for (int i = 0; i < kPacketsOfTurn && !link->is_closed && !link->is_lost; ++i) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec bytes = {packet_.data(), packet_.size()};
    msghdr message = {};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = link->is_served ? nullptr : control;
    message.msg_controllen = link->is_served ? 0 : sizeof control;
    const ssize_t n = recvmsg(link->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) return lose(link, "its process has closed the connection");
    int fds[2] = {-1, -1};  // as many as have room
    const cmsghdr* const about = CMSG_FIRSTHDR(&message);
    const bool has_fd = about != nullptr && about->cmsg_level == SOL_SOCKET && about->cmsg_type == SCM_RIGHTS;
    if (has_fd) std::memcpy(fds, CMSG_DATA(about), std::min(about->cmsg_len - CMSG_LEN(0), sizeof fds));
    try {
      const bool is_right = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 && fds[1] < 0;
      const auto packet = std::span<const uint8_t>(packet_).first(static_cast<size_t>(n));
      is_right ? take(link, packet, fds[0], events) : lose(link, "a packet that cannot be", true);
    } catch (const std::bad_alloc&) {
      lose(link, "no memory for what it sent");
    }
    for (const int fd : fds) {
      if (fd >= 0) ::close(fd);
    }
  }
}

void Near::take(NearLink* link, std::span<const uint8_t> packet, int fd, Events* events) {
  const auto kind = static_cast<PacketKind>(packet[0]);
  const auto rest = packet.subspan(1);
  if ((fd >= 0) != (kind == PacketKind::kRing)) return lose(link, "a packet that cannot be", true);
  if (kind == PacketKind::kMessage && rest.size() <= kMostMessage) {
    Arrival arrival;
    arrival.link = link;
    arrival.message.assign(rest.begin(), rest.end());
    return events->arrived(&arrival);
  }
  if (link->is_served) {
    if (kind != PacketKind::kEmptied || !rest.empty() || link->filled == 0) return lose(link, "a packet that cannot be", true);
    --link->filled;
    return;
  }
  switch (kind) {
    case PacketKind::kRing:
      return take_ring(link, fd);
    case PacketKind::kData:
      return take_data(link, rest, events);
    case PacketKind::kFilled:
      return take_filled(link, rest);
    case PacketKind::kGivenUp:
      return take_given_up(link);
    default:
      return lose(link, "a packet that cannot be", true);
  }
}

void Near::take_ring(NearLink* link, int fd) {
  if (link->ring.is_there()) return lose(link, "its shared memory comes twice", true);
  if (const char* const why = link->ring.take(fd); why != nullptr) lose(link, why, true);
}

void Near::take_data(NearLink* link, std::span<const uint8_t> rest, Events* events) {
  if (rest.size() < sizeof(uint64_t) + sizeof(uint16_t) || link->left != 0) return lose(link, "a packet that cannot be", true);
  Arrival arrival;
  arrival.link = link;
  arrival.is_data = true;
  arrival.length = get<uint64_t>(&rest);
  const size_t header = get<uint16_t>(&rest);
  const bool is_right = header <= rest.size() && header <= kMostMessage && arrival.length != 0 && arrival.length <= kMostWanted &&
                        (header == rest.size() || rest.size() - header == arrival.length);
  if (!is_right) return lose(link, "bytes that cannot be", true);
  arrival.message.assign(rest.begin(), rest.begin() + static_cast<ptrdiff_t>(header));
  rest = rest.subspan(header);
  arrival.bytes.assign(rest.begin(), rest.end());
  if (rest.empty()) {
    link->left = arrival.length;
    link->way = {};
    arrival.waiting = link;
  }
  events->arrived(&arrival);
}

void Near::receive(Link* link, Arrival* arrival, std::unique_ptr<Transfer> transfer) {
  auto* const own = static_cast<NearLink*>(link);
  transfer->link = link;
  ++link->in_flight;
  arrival->waiting = nullptr;
  if (transfer->bytes == own->left) {
    own->receiving = std::move(transfer);
  } else {
    ends_.add(transfer.release(), UCS_ERR_MESSAGE_TRUNCATED);
  }
}

// The slot is given back when its bytes are where they belong.
void Near::take_filled(NearLink* link, std::span<const uint8_t> rest) {
  if (rest.size() != sizeof(uint32_t) || !link->ring.is_there()) return lose(link, "a packet that cannot be", true);
  const uint64_t bytes = get<uint32_t>(&rest);
  if (bytes == 0 || bytes > kSlotBytes || bytes > link->left) return lose(link, "more bytes than were announced", true);
  if (link->emptied >= kSlots) return lose(link, "it fills slots that it did not get back", true);
  if (link->receiving != nullptr) {
    const uint8_t* const slot = link->ring.slot(link->next_slot);
    walk(link->receiving->places, &link->way, bytes,
         [&](uint8_t* memory, uint64_t at, uint64_t part) { plugins::stream_copy(memory, slot + at, part); });
    plugins::end_of_stream_copies();
  }
  link->has_streamed = true;
  link->next_slot = (link->next_slot + 1) % kSlots;
  link->left -= bytes;
  post(link, packet_of(PacketKind::kEmptied));
  if (link->left == 0 && link->receiving != nullptr) ends_.add(link->receiving.release(), UCS_OK);
}

void Near::take_given_up(NearLink* link) {
  if (link->left == 0) return lose(link, "a packet that cannot be", true);
  link->left = 0;
  if (link->receiving != nullptr) ends_.add(link->receiving.release(), UCS_ERR_CANCELED);
}

}  // namespace quire::ucx
