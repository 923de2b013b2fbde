#include "plugins/redis/exchange.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <utility>

#include "plugins/redis/redis_config.h"

namespace quire::redis {
namespace {

constexpr uint64_t kNearBytes = uint64_t{32} * 1024;  // gaps up to it are read: that costs less than another command
constexpr size_t kMostRanges = 1024;                  // of a load
constexpr size_t kMostExtents = 128;                  // sent or received at once; shorter pieces are gathered

void append_word(std::string* out, std::string_view word) {
  *out += "$" + std::to_string(word.size()) + "\r\n";
  out->append(word);
  *out += "\r\n";
}

void append_command(std::string* out, std::initializer_list<std::string_view> words) {
  *out += "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string_view word : words) append_word(out, word);
}

// Whether they follow one another without a byte in two of them.
bool are_apart(const std::vector<plugins::Extent>& extents) {
  uint64_t end = 0;
  for (const plugins::Extent& extent : extents) {
    if (extent.begin < end) return false;
    end = extent.begin + extent.bytes;
  }
  return true;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Joins what overlaps or is near.
void join(std::vector<Range>* ranges, uint64_t near) {
  std::sort(ranges->begin(), ranges->end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  size_t last = 0;
  for (const Range& range : *ranges) {
    Range& before = (*ranges)[last];
    if (range.begin <= before.end || range.begin - before.end <= near) {
      before.end = std::max(before.end, range.end);
    } else {
      (*ranges)[++last] = range;
    }
  }
  ranges->resize(std::min(ranges->size(), last + 1));
}

}  // namespace

bool parse_reply(std::string_view line, Reply* out) {
  if (line.empty()) return false;
  const std::string_view rest = line.substr(1);
  *out = {};
  switch (line[0]) {
    case '+':
    case '-':
      out->kind = line[0] == '+' ? Reply::Kind::kStatus : Reply::Kind::kError;
      out->text = rest;
      return true;
    case ':':
      out->kind = Reply::Kind::kInteger;
      break;
    case '$':
      out->kind = Reply::Kind::kBulk;
      break;
    case '*':
      out->kind = Reply::Kind::kArray;
      break;
    case '_':
      out->kind = Reply::Kind::kNil;
      return rest.empty();
    default:
      return false;
  }
  const auto number = number_of(rest);
  if (!number) return false;
  out->number = *number;
  if (out->kind == Reply::Kind::kInteger) return true;
  if (*number == -1) out->kind = Reply::Kind::kNil;
  return *number >= -1 && *number <= static_cast<int64_t>(kMostObjectBytes);
}

quire_code code_of_error(std::string_view text) {
  static constexpr struct {
    std::string_view begin;
    quire_code code;
  } kCodes[] = {{"OOM ", QUIRE_RESOURCE_EXHAUSTED},      {"WRONGTYPE ", QUIRE_DATA_LOSS},          {"NOAUTH ", QUIRE_PERMISSION_DENIED},
                {"WRONGPASS ", QUIRE_PERMISSION_DENIED}, {"NOPERM ", QUIRE_PERMISSION_DENIED},     {"READONLY ", QUIRE_PERMISSION_DENIED},
                {"MOVED ", QUIRE_FAILED_PRECONDITION},   {"CROSSSLOT ", QUIRE_FAILED_PRECONDITION}};
  for (const auto& known : kCodes) {
    if (text.starts_with(known.begin)) return known.code;
  }
  return QUIRE_UNAVAILABLE;
}

std::vector<Range> plan_ranges(std::span<const quire_ticket_run> runs) {
  std::vector<Range> ranges;
  for (const quire_ticket_run& run : runs) {
    const uint64_t step =
        run.object_stride < 0 ? uint64_t{0} - static_cast<uint64_t>(run.object_stride) : static_cast<uint64_t>(run.object_stride);
    const uint64_t first = run.count > 1 && run.object_stride < 0 ? run.object_offset - step * (run.count - 1) : run.object_offset;
    const bool is_one = run.count == 1 || step - run.bytes <= kNearBytes || run.count > kMostRanges;
    const uint64_t count = is_one ? 1 : run.count;
    const uint64_t bytes = is_one && run.count > 1 ? step * (run.count - 1) + run.bytes : run.bytes;
    for (uint64_t i = 0; i < count; ++i) ranges.push_back({first + i * step, first + i * step + bytes});
    if (ranges.size() > 4 * kMostRanges) join(&ranges, kNearBytes);
  }
  uint64_t near = kNearBytes;
  for (join(&ranges, near); ranges.size() > kMostRanges; join(&ranges, near)) near *= 2;
  return ranges;
}

Exchange::Exchange(std::unique_ptr<Part> part, const Config& config, bool never_evicts)
    : part_(std::move(part)), pieces_(part_->ticket->runs) {
  const quire_ticket& fields = part_->ticket->fields;
  const std::string key = config.prefix + std::string(part_->ticket->key());
  if (fields.kind == QUIRE_TICKET_STORE) plan_store(config, key);
  if (fields.kind == QUIRE_TICKET_LOAD) plan_load(config, key);
  if (fields.kind == QUIRE_TICKET_LOOKUP) plan_look_up(config);
  if (fields.kind == QUIRE_TICKET_REMOVE) append_command(&head_, {"DEL", key});
  to_send_ = head_.size() + fields.object_bytes + tail_.size();
  weight_ = to_send_;
  for (const Range& range : ranges_) weight_ += range.end - range.begin;
  // A server that never evicts keeps what it has; only the time to live may end it, and each hit renews that.
  const bool lasts = config.ttl_ms == 0 || fields.lease_ns / 1'000'000 < config.ttl_ms;
  if (fields.lease_ns > 0 && never_evicts && lasts) flags_ = QUIRE_COMPLETION_LEASED;
  if (!part_->ticket->runs.empty()) extents_.reserve(kMostExtents);
}

void Exchange::plan_store(const Config& config, std::string_view key) {
  const bool expires = config.ttl_ms != 0;
  head_ = expires ? "*6\r\n" : "*4\r\n";
  append_word(&head_, "SET");
  append_word(&head_, key);
  head_ += "$" + std::to_string(part_->ticket->fields.object_bytes) + "\r\n";
  tail_ = "\r\n";
  append_word(&tail_, "NX");
  if (!expires) return;
  append_word(&tail_, "PX");
  append_word(&tail_, std::to_string(config.ttl_ms));
}

void Exchange::plan_load(const Config& config, std::string_view key) {
  ranges_ = plan_ranges(part_->ticket->runs);
  if (part_->is_one_range) ranges_ = {{ranges_.front().begin, ranges_.back().end}};
  const bool expires = config.ttl_ms != 0;
  const uint64_t items = ranges_.size() + (expires ? 2 : 1);
  const bool is_atomic = ranges_.size() > 1;
  if (is_atomic) append_command(&head_, {"MULTI"});
  append_command(&head_, {"STRLEN", key});
  if (expires) append_command(&head_, {"PEXPIRE", key, std::to_string(config.ttl_ms)});
  for (const Range& range : ranges_) {
    append_command(&head_, {"GETRANGE", key, std::to_string(range.begin), std::to_string(range.end - 1)});
  }
  if (is_atomic) append_command(&head_, {"EXEC"});
  first_item_ = is_atomic ? items + 2 : 0;  // answers to MULTI, to each command, to EXEC
  most_replies_ = first_item_ + items;
}

void Exchange::plan_look_up(const Config& config) {
  const std::string ttl = std::to_string(config.ttl_ms);
  per_key_ = config.ttl_ms != 0 ? 2 : 1;
  std::string key = config.prefix;
  for (const uint32_t i : part_->keys) {
    key.resize(config.prefix.size());
    key.append(part_->ticket->key(i));
    append_command(&head_, {"STRLEN", key});
    if (config.ttl_ms != 0) append_command(&head_, {"PEXPIRE", key, ttl});
  }
  most_replies_ = part_->keys.size() * per_key_;
}

bool Exchange::outgoing(std::vector<iovec>* out, const Scratch& scratch) {
  if (sent_ < head_.size()) out->push_back({head_.data() + sent_, head_.size() - sent_});
  const uint64_t object_bytes = to_send_ - head_.size() - tail_.size();
  const uint64_t from = std::max<uint64_t>(sent_, head_.size()) - head_.size();
  if (from < object_bytes) {
    const uint64_t to = std::min(from + kScratchBytes, object_bytes);
    extents_.clear();
    if (!pieces_.collect(from, to, kMostExtents, &extents_)) {
      pieces_.gather(from, to, scratch.get());
      out->push_back({scratch.get(), to - from});
      return false;
    }
    for (const plugins::Extent& extent : extents_) out->push_back({extent.memory, extent.bytes});
    if (to != object_bytes) return true;
  }
  const uint64_t before = sent_ > head_.size() + object_bytes ? sent_ - head_.size() - object_bytes : 0;
  if (before < tail_.size()) out->push_back({tail_.data() + before, tail_.size() - before});
  return true;
}

size_t Exchange::sent(size_t n) {
  const uint64_t own = std::min<uint64_t>(n, to_send_ - sent_);
  sent_ += own;
  return n - own;
}

void Exchange::fail(const Reply& reply) {
  if (code_ != QUIRE_OK) return;
  code_ = code_of_error(reply.text);
  complaint_ = reply.text.substr(0, kShownBytes);
}

bool Exchange::take(const Reply& reply) {
  const bool is_legal = take_one(reply);
  if (!is_legal && code_ == QUIRE_OK) code_ = QUIRE_UNAVAILABLE;
  return is_legal;
}

bool Exchange::take_one(const Reply& reply) {
  if (reply.kind == Reply::Kind::kError) fail(reply);
  if (!tail_.empty()) {  // a store
    const bool existed = reply.kind == Reply::Kind::kNil;
    if (existed) flags_ |= QUIRE_COMPLETION_EXISTED;
    ++num_replies_;
    return existed || reply.kind == Reply::Kind::kError || (reply.kind == Reply::Kind::kStatus && reply.text == "OK");
  }
  if (!ranges_.empty()) return take_load(reply);
  return take_size(reply);
}

// Of a look-up or a removal: integers, and errors of single keys.
bool Exchange::take_size(const Reply& reply) {
  const uint64_t i = num_replies_++;
  if (reply.kind == Reply::Kind::kError) return true;
  if (reply.kind != Reply::Kind::kInteger || reply.number < 0) return false;
  if (part_ == nullptr || i % per_key_ != 0) return true;
  Ticket& ticket = *part_->ticket;
  if (ticket.fields.kind == QUIRE_TICKET_LOOKUP) {
    ticket.sizes[part_->keys[i / per_key_]] = static_cast<uint64_t>(reply.number);
  } else if (reply.number == 0 && !part_->is_again) {
    code_ = QUIRE_NOT_FOUND;
  }
  return true;
}

bool Exchange::take_load(const Reply& reply) {
  const uint64_t i = num_replies_;
  const uint64_t num_sizes = most_replies_ - first_item_ - ranges_.size();
  if (reply.kind == Reply::Kind::kBulk) {
    if (i < first_item_ + num_sizes) return false;
    const Range& range = ranges_[i - first_item_ - num_sizes];
    const auto bytes = static_cast<uint64_t>(reply.number);
    at_ = range.begin;
    if (code_ == QUIRE_OK && bytes == 0) code_ = QUIRE_NOT_FOUND;  // it went after STRLEN was answered
    if (code_ == QUIRE_OK && bytes != range.end - range.begin) {
      code_ = QUIRE_DATA_LOSS;
      complaint_ = "GETRANGE gave " + std::to_string(bytes) + " bytes of " + std::to_string(range.end - range.begin);
    }
    return true;  // counted when its bytes are there
  }
  ++num_replies_;
  if (reply.kind == Reply::Kind::kError) {
    if (i + 1 == first_item_) num_replies_ = most_replies_;  // EXEC: nothing follows
    return true;
  }
  if (i + 1 == first_item_) return reply.kind == Reply::Kind::kArray && static_cast<uint64_t>(reply.number) == most_replies_ - first_item_;
  if (i < first_item_) return reply.kind == Reply::Kind::kStatus && reply.text == (i == 0 ? "OK" : "QUEUED");
  if (reply.kind != Reply::Kind::kInteger || reply.number < 0 || i >= first_item_ + num_sizes) return false;
  if (i != first_item_ || code_ != QUIRE_OK) return true;
  if (reply.number == 0) code_ = QUIRE_NOT_FOUND;
  if (reply.number != 0 && static_cast<uint64_t>(reply.number) < ranges_.back().end) code_ = QUIRE_OUT_OF_RANGE;
  return true;
}

size_t Exchange::place(uint64_t left, std::vector<iovec>* out, const Scratch& scratch) {
  const uint64_t bytes = std::min<uint64_t>(left, kScratchBytes);
  extents_.clear();
  is_staged_ = !is_wanted() || !pieces_.collect(at_, at_ + bytes, kMostExtents, &extents_) || !are_apart(extents_);
  if (is_staged_) {
    out->push_back({scratch.get(), bytes});
    return bytes;
  }
  uint64_t at = at_;
  for (const plugins::Extent& extent : extents_) {
    if (extent.begin != at) out->push_back({scratch.get(), extent.begin - at});
    out->push_back({extent.memory, extent.bytes});
    at = extent.begin + extent.bytes;
  }
  if (at != at_ + bytes) out->push_back({scratch.get(), at_ + bytes - at});
  return bytes;
}

void Exchange::placed(size_t n, const Scratch& scratch) {
  if (is_staged_ && is_wanted()) pieces_.scatter(at_, at_ + n, scratch.get());
  at_ += n;
}

void Exchange::put(std::span<const uint8_t> bytes) {
  if (is_wanted()) pieces_.scatter(at_, at_ + bytes.size(), bytes.data());
  at_ += bytes.size();
}

bool Exchange::needs_one_range() const { return part_ != nullptr && code_ == QUIRE_RESOURCE_EXHAUSTED && !ranges_.empty(); }

bool Exchange::can_stop(bool must) const {
  const quire_ticket_kind kind = part_->ticket->fields.kind;
  if (kind == QUIRE_TICKET_LOAD || kind == QUIRE_TICKET_LOOKUP) return true;
  const bool is_read = sent_ >= to_send_ - tail_.size();
  return must && is_read;
}

int64_t Exchange::end_by(int64_t now, int64_t grace) {
  if (end_by_ == 0) end_by_ = now + grace;
  return end_by_;
}

PartEnd Exchange::end(quire_code code) {
  PartEnd end;
  end.code = code != QUIRE_OK ? code : code_;
  const quire_ticket& fields = part_->ticket->fields;
  // Errors of single keys of a look-up are misses, unless there was nothing else.
  if (fields.kind == QUIRE_TICKET_LOOKUP && end.code == QUIRE_DATA_LOSS) end.code = QUIRE_OK;
  if (end.code == QUIRE_OK) {
    end.flags = flags_;
    if (fields.kind == QUIRE_TICKET_STORE && (flags_ & QUIRE_COMPLETION_EXISTED) == 0) end.bytes = fields.object_bytes;
    if (fields.kind == QUIRE_TICKET_LOAD) end.bytes = pieces_.bytes();
  }
  end.ticket = std::move(part_->ticket);
  part_.reset();
  return end;
}

}  // namespace quire::redis
