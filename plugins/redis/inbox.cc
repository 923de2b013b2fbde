#include "plugins/redis/inbox.h"

#include <algorithm>
#include <cstring>

namespace quire::redis {
namespace {

constexpr size_t kBufferBytes = 65536;
constexpr size_t kMostLine = 4096;
constexpr size_t kMostPlaces = 512;  // iovecs; an exchange gives at most 2 for each of 128 extents

}  // namespace

Inbox::Inbox() : bytes_(new uint8_t[kBufferBytes]) { places_.reserve(kMostPlaces); }

void Inbox::clear() {
  begin_ = end_ = 0;
  body_left_ = 0;
  end_left_ = 0;
}

Exchange* Inbox::front(const Pipeline& pipeline, size_t* number) {
  while (*number < pipeline.asked.size() && pipeline.asked[*number]->is_answered()) ++*number;
  return *number < pipeline.asked.size() ? pipeline.asked[*number].get() : nullptr;
}

Inbox::Got Inbox::read(Link* link, Pipeline* pipeline, const Scratch& scratch) {
  number_ = 0;
  places_.clear();
  Exchange* const first = body_left_ != 0 ? front(*pipeline, &number_) : nullptr;
  const size_t placed = first != nullptr ? first->place(body_left_, &places_, scratch) : 0;
  places_.push_back({bytes_.get() + end_, kBufferBytes - end_});
  const size_t end_before = end_;
  const ssize_t n = link->receive(places_);
  if (n <= 0) return n == 0 ? Got::kNothing : Got::kLost;
  const size_t body = std::min(static_cast<size_t>(n), placed);
  if (first != nullptr) first->placed(body, scratch);
  body_left_ -= body;
  end_ += static_cast<size_t>(n) - body;
  const bool is_full = static_cast<size_t>(n) == placed + kBufferBytes - end_before;
  if (!parse(pipeline)) return Got::kNonsense;
  return is_full || !link->tells_all() ? Got::kSome : Got::kAll;
}

bool Inbox::parse(Pipeline* pipeline) {
  while (begin_ != end_) {
    Exchange* const asked = front(*pipeline, &number_);
    if (asked == nullptr) return false;
    if (body_left_ != 0) {
      const auto n = static_cast<size_t>(std::min<uint64_t>(end_ - begin_, body_left_));
      asked->put({bytes_.get() + begin_, n});
      begin_ += n;
      body_left_ -= n;
      continue;
    }
    if (end_left_ != 0) {
      if (bytes_[begin_++] != static_cast<uint8_t>(end_left_ == 2 ? '\r' : '\n')) return false;
      if (--end_left_ == 0) asked->end_bulk();
    } else {
      const size_t before = begin_;
      if (!parse_line(asked)) return false;
      if (begin_ == before) break;  // the line has no end yet
    }
    if (asked->is_answered() && !asked->is_sent()) return false;
  }
  std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  return true;
}

bool Inbox::parse_line(Exchange* asked) {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.get()) + begin_, end_ - begin_);
  const size_t end = rest.substr(0, kMostLine).find("\r\n");
  if (end == std::string_view::npos) return rest.size() < kMostLine;
  Reply reply;
  if (!parse_reply(rest.substr(0, end), &reply) || !asked->take(reply)) return false;
  begin_ += end + 2;
  if (reply.kind != Reply::Kind::kBulk) return true;
  body_left_ = static_cast<uint64_t>(reply.number);
  end_left_ = 2;
  return true;
}

}  // namespace quire::redis
