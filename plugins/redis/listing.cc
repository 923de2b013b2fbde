#include "plugins/redis/listing.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace quire::redis {
namespace {

constexpr uint64_t kBatch = 1000;  // keys in one go

// A pattern that matches keys which begin with the text.
std::string pattern_of(const std::string& prefix) {
  std::string pattern;
  for (const char c : prefix) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern + "*";
}

// While hiredis writes in the thread of a caller, a server that has gone away must not end the process by SIGPIPE. The signal is kept from
// this thread, and dropped if it came.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigset_t pending;
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now = {};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_, before_;
  bool was_pending_;
};

Outcome failed(const Address& address, const std::string& text) {
  return {QUIRE_UNAVAILABLE, 0, "server " + address.text + " cannot be asked: " + text};
}

bool append(redisContext* wire, const std::vector<std::string>& command) {
  std::vector<const char*> words;
  std::vector<size_t> bytes;
  for (const std::string& word : command) {
    words.push_back(word.data());
    bytes.push_back(word.size());
  }
  return redisAppendCommandArgv(wire, static_cast<int>(words.size()), words.data(), bytes.data()) == REDIS_OK;
}

ReplyObject receive(redisContext* wire) {
  void* object = nullptr;
  if (redisGetReply(wire, &object) != REDIS_OK) return nullptr;
  return ReplyObject(static_cast<redisReply*>(object));
}

}  // namespace

Outcome Listing::connect(uint32_t server, Wire* out) const {
  const Address& address = config_.servers[server];
  if (Outcome outcome = dial(config_, address, true, out); !outcome.ok()) return failed(address, outcome.text);
  const auto commands = greeting(config_);
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!append(out->get(), commands[i])) return failed(address, (*out)->errstr);
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    const ReplyObject reply = receive(out->get());
    if (reply == nullptr) return failed(address, (*out)->errstr);
    if (Outcome outcome = check_greeting(config_, i, *reply); !outcome.ok()) return failed(address, outcome.text);
  }
  return {};
}

Outcome Listing::scan(uint32_t server) {
  Wire wire;
  if (Outcome outcome = connect(server, &wire); !outcome.ok()) return outcome;
  const std::string pattern = pattern_of(config_.prefix);
  std::string cursor = "0";
  do {
    if (!append(wire.get(), {"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(kBatch)})) break;
    const ReplyObject reply = receive(wire.get());
    if (reply == nullptr) return failed(config_.servers[server], wire->errstr);
    const bool is_list = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
                         reply->element[1]->type == REDIS_REPLY_ARRAY;
    if (!is_list) return failed(config_.servers[server], reply->type == REDIS_REPLY_ERROR ? reply->str : "SCAN is not answered as usual");
    cursor.assign(reply->element[0]->str, reply->element[0]->len);
    for (size_t i = 0; i < reply->element[1]->elements; ++i) {
      const redisReply& key = *reply->element[1]->element[i];
      const bool is_own = key.type == REDIS_REPLY_STRING && key.len > config_.prefix.size();
      if (!is_own) continue;
      std::string own(key.str + config_.prefix.size(), key.len - config_.prefix.size());
      if (shards_.of(own) == server) keys_.push_back(std::move(own));  // others cannot be found where they are
    }
  } while (cursor != "0");
  return {};
}

Outcome Listing::collect() {
  keys_.clear();
  for (uint32_t server = 0; server < config_.servers.size(); ++server) {
    if (Outcome outcome = scan(server); !outcome.ok()) return outcome;
  }
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  return {};
}

Outcome Listing::read_sizes(uint64_t first, uint64_t count, std::vector<uint64_t>* sizes) {
  sizes->assign(count, 0);
  for (uint32_t server = 0; server < config_.servers.size(); ++server) {
    std::vector<uint64_t> asked;
    for (uint64_t i = 0; i < count; ++i) {
      if (shards_.of(keys_[first + i]) == server) asked.push_back(i);
    }
    if (asked.empty()) continue;
    Wire wire;
    if (Outcome outcome = connect(server, &wire); !outcome.ok()) return outcome;
    for (const uint64_t i : asked) append(wire.get(), {"STRLEN", config_.prefix + keys_[first + i]});
    for (const uint64_t i : asked) {
      const ReplyObject reply = receive(wire.get());
      if (reply == nullptr) return failed(config_.servers[server], wire->errstr);
      if (reply->type == REDIS_REPLY_INTEGER) (*sizes)[i] = static_cast<uint64_t>(reply->integer);
    }
  }
  return {};
}

// The cursor is the number of the next key.
Outcome Listing::next(uint64_t* cursor, std::span<quire_object_entry> items, uint64_t* count, std::span<uint8_t> keys) {
  *count = 0;
  const NoBrokenPipe quiet;
  if (items.empty()) return {QUIRE_INVALID_ARGUMENT, 0, "capacity is 0, at least 1"};
  if (*cursor == 0) {
    if (Outcome outcome = collect(); !outcome.ok()) return outcome;
  }
  if (*cursor > keys_.size()) return {QUIRE_INVALID_ARGUMENT, 0, "cursor is " + std::to_string(*cursor) + ", which list has not given"};
  uint64_t at = *cursor, used = 0;
  bool fits = true;
  std::vector<uint64_t> sizes;
  while (at < keys_.size() && *count < items.size() && fits) {
    const uint64_t batch = std::min({kBatch, keys_.size() - at, items.size() - *count});
    if (Outcome outcome = read_sizes(at, batch, &sizes); !outcome.ok()) return outcome;
    for (uint64_t i = 0; i < batch; ++i, ++at) {
      const std::string& key = keys_[at];
      if (sizes[i] == 0) continue;
      fits = key.size() <= keys.size() - used;
      if (!fits) break;
      std::memcpy(keys.data() + used, key.data(), key.size());
      items[(*count)++] = {used, key.size(), sizes[i], 0};
      used += key.size();
    }
  }
  if (!fits && *count == 0) {
    return {QUIRE_OUT_OF_RANGE, 0,
            "num_key_bytes is " + std::to_string(keys.size()) + ", the next key has " + std::to_string(keys_[at].size())};
  }
  *cursor = at < keys_.size() ? at : 0;
  if (*cursor == 0) keys_ = {};
  return {};
}

}  // namespace quire::redis
