// What tests of the publisher share: an engine without a device whose cache reports events, made
// events, a publisher, and subscribers over plain libzmq that read msgpack with another library.
#pragma once

#include <gtest/gtest.h>
#include <quire/quire.h>
#include <quire/zmq.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire::wire {

using nlohmann::json;

constexpr uint64_t kEndNumber = UINT64_MAX;

inline quire_str str(std::string_view text) { return {text.data(), text.size()}; }
// Of QUIRE_SEED, or `otherwise`; printed.
uint64_t seed_or(uint64_t otherwise);
// Asks again and again until it is true, for at most twenty seconds.
[[nodiscard]] bool becomes_true(const std::function<bool()>& condition);
double seconds_now();

struct Error : quire_error {
  Error() : quire_error(QUIRE_INIT(quire_error)) {}
};

// A folder for Unix sockets, removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string ipc(const std::string& name) const { return "ipc://" + path_ + "/" + name; }

 private:
  std::string path_;
};

// Events of one STORED each, whose digests are 32 bytes that end with the number of the block.
class MadeEvents {
 public:
  void store(uint64_t block, std::vector<int64_t> tokens, uint32_t group = 0);
  void remove(uint64_t block, uint32_t group = 0);
  void clear();
  quire_event_message message() const;
  std::vector<quire_event>& events() { return events_; }

 private:
  uint64_t append(const void* bytes, size_t n);
  std::vector<quire_event> events_;
  std::vector<uint64_t> data_;
};

// Owns a publisher; by default at any port of this machine, with replays.
class Publisher {
 public:
  static quire_event_publisher_options options();
  explicit Publisher(const quire_event_publisher_options& options = Publisher::options());
  quire_event_publisher* get() const { return own_.get(); }
  void release() { own_.reset(); }
  quire_event_publisher_stats stats() const;
  std::string endpoint() const { return info().endpoint; }
  std::string replay_endpoint() const { return info().replay_endpoint; }
  void publish(const MadeEvents& events) const;
  // One block is stored.
  void publish_block(uint64_t block, size_t tokens = 4) const;
  void follow(quire_cache* cache, uint32_t flags = 0) const;
  // What the thread has not sent yet is sent, or dropped.
  [[nodiscard]] bool is_idle() const;

 private:
  struct Release {
    void operator()(quire_event_publisher* publisher) const { quire_event_publisher_release(publisher); }
  };
  quire_event_publisher_info info() const;
  std::unique_ptr<quire_event_publisher, Release> own_;
};

using Frames = std::vector<std::string>;

// A socket of libzmq with a context of its own.
class Socket {
 public:
  explicit Socket(int type);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  void set(int option, int value) const;
  void subscribe(const std::string& topic) const;
  void connect(const std::string& endpoint) const;
  std::string bind(const std::string& endpoint) const;
  void send(const Frames& frames) const;
  // None after timeout_ms.
  Frames receive(int timeout_ms = 20'000) const;

 private:
  void* libzmq_;
  void* socket_;
};

struct Message {
  std::string topic;
  uint64_t number = 0;
  std::string payload;
  bool is_end() const { return number == kEndNumber && payload.empty(); }
};
Message message_of(const Frames& frames);
std::string big_endian(uint64_t number);
// Throws where it is no msgpack.
json decode(const std::string& payload);

// The answers to a request of a REQ-like client, without the end; nullopt if the end did not come.
std::optional<std::vector<Message>> ask_replay(const std::string& endpoint, uint64_t from);

// What a router knows: blocks by group and number, with their tokens.
using Index = std::map<std::pair<uint64_t, uint64_t>, std::vector<int64_t>>;
void apply(const std::string& payload, Index* index);

// An engine that does the bookkeeping of a hybrid model only.
class Engine {
 public:
  // model: its config.json; nullptr = full attention and windows.
  explicit Engine(uint64_t ring_bytes = 0, uint64_t pages = 90, const char* model = nullptr);
  quire_cache* cache() const { return cache_.get(); }
  quire_config* config() const { return config_.get(); }
  // One random operation: a prompt runs, from a few with common beginnings, or all is forgotten.
  void step(std::mt19937_64* random);
  static std::vector<quire_symbol> prompt(std::mt19937_64* random);
  // What a snapshot says, read without msgpack.
  Index index() const;

 private:
  template <auto release>
  struct Release {
    template <typename T>
    void operator()(T* object) const {
      release(object);
    }
  };
  std::unique_ptr<quire_runtime, Release<quire_runtime_release>> runtime_;
  std::unique_ptr<quire_model, Release<quire_model_release>> model_;
  std::unique_ptr<quire_config, Release<quire_config_release>> config_;
  std::unique_ptr<quire_cache, Release<quire_cache_release>> cache_;
};

}  // namespace quire::wire
