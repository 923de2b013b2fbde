// quire/zmq.h: every exported function checks its arguments, calls, and reports.
#include <quire/zmq.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "plugins/common/library.h"
#include "plugins/zmq/endpoint.h"
#include "plugins/zmq/publisher.h"

using quire::plugins::guarded_export;
using quire::plugins::invalid;
using quire::plugins::Outcome;
using quire::plugins::read_descriptor;
using quire::plugins::write_info;
using quire::zmq::Publisher;
using quire::zmq::PublisherOptions;

struct quire_event_publisher {
  std::unique_ptr<Publisher> own;
};

namespace {

constexpr char kSource[] = "library:zmq";  // of errors
// Bytes of the first structs; later ones are longer.
constexpr uint32_t kFirstOptions = 136, kFirstMessage = 80;
constexpr std::string_view kEndpoint = "tcp://*:5557";
constexpr uint64_t kBufferSteps = 10'000, kQueueSize = 100'000, kBytes = 256 << 20;
constexpr uint32_t kHwm = 100'000, kLingerMs = 1'000;
constexpr uint64_t kMostBatches = 1'000'000'000;
constexpr uint64_t kMostEndpoint = 1024, kMostTopic = 4096, kMostLabel = 255;
constexpr uint32_t kMostLingerMs = 3'600'000;

// A text of the caller, or what stands for an empty one.
Outcome read_text(quire_str text, const std::string& name, uint64_t most, std::string_view if_empty, std::string* out) {
  if (text.data == nullptr && text.len != 0) return invalid(name + ".data is NULL and its len is " + std::to_string(text.len));
  if (text.len > most) return invalid(name + " has " + std::to_string(text.len) + " bytes, the limit is " + std::to_string(most));
  *out = text.len != 0 ? std::string_view(text.data, text.len) : if_empty;
  return {};
}

Outcome read_number(uint64_t number, const std::string& name, uint64_t most, uint64_t if_zero, uint64_t* out) {
  if (number > most) return invalid(name + " is " + std::to_string(number) + ", at most " + std::to_string(most));
  *out = number != 0 ? number : if_zero;
  return {};
}

// The first of several that failed.
template <typename... Outcomes>
Outcome first_of(Outcomes... outcomes) {
  for (Outcome* outcome : {&outcomes...}) {
    if (!outcome->ok()) return std::move(*outcome);
  }
  return {};
}

Outcome read_endpoint(quire_str text, const std::string& name, int32_t rank, std::string_view if_empty, std::string* out) {
  std::string endpoint;
  if (Outcome outcome = read_text(text, name, kMostEndpoint, if_empty, &endpoint); !outcome.ok() || endpoint.empty()) return outcome;
  if (endpoint.find('\0') != std::string::npos) return invalid(name + " has a zero byte");
  return quire::zmq::endpoint_of_rank(endpoint, name.c_str(), rank, out);
}

Outcome read_options(const quire_event_publisher_options* options, PublisherOptions* out) {
  quire_event_publisher_options own = {};
  if (Outcome outcome = read_descriptor(options, "options", kFirstOptions, &own); !outcome.ok()) return outcome;
  if ((own.flags & ~QUIRE_EVENTS_WHOLE_HASHES) != 0) return invalid("options.flags is " + std::to_string(own.flags) + ", known is 1");
  if (own.reserved0 != 0) return invalid("options.reserved0 is " + std::to_string(own.reserved0) + ", not 0");
  if (own.data_parallel_rank < -1)
    return invalid("options.data_parallel_rank is " + std::to_string(own.data_parallel_rank) + ", at least -1");
  out->flags = own.flags;
  out->rank = own.data_parallel_rank;
  uint64_t hwm = 0, linger_ms = 0;
  Outcome outcome = first_of(read_endpoint(own.endpoint, "options.endpoint", out->rank, kEndpoint, &out->sockets.endpoint),
                             read_endpoint(own.replay_endpoint, "options.replay_endpoint", out->rank, "", &out->sockets.replay_endpoint),
                             read_text(own.topic, "options.topic", kMostTopic, "", &out->sender.topic),
                             read_text(own.medium, "options.medium", kMostLabel, "GPU", &out->medium),
                             read_text(own.locality, "options.locality", kMostLabel, "", &out->locality),
                             read_number(own.buffer_steps, "options.buffer_steps", kMostBatches, kBufferSteps, &out->sender.buffer_steps),
                             read_number(own.buffer_bytes, "options.buffer_bytes", UINT64_MAX, kBytes, &out->sender.buffer_bytes),
                             read_number(own.max_queue_size, "options.max_queue_size", kMostBatches, kQueueSize, &out->max_queue_size),
                             read_number(own.max_queue_bytes, "options.max_queue_bytes", UINT64_MAX, kBytes, &out->max_queue_bytes),
                             read_number(own.hwm, "options.hwm", kMostBatches, kHwm, &hwm),
                             read_number(own.linger_ms, "options.linger_ms", kMostLingerMs, kLingerMs, &linger_ms));
  out->linger_ms = static_cast<uint32_t>(linger_ms);
  out->sockets.hwm = static_cast<int>(hwm);
  // libzmq hears of what was read when half as many messages were: a whole answer and its end have room.
  out->sockets.replay_hwm = static_cast<int>(std::min<uint64_t>(2 * (out->sender.buffer_steps + 1), INT32_MAX));
  return outcome;
}

Outcome check_version() {
  const uint32_t version = quire_abi_version();
  if (version == QUIRE_ABI_VERSION) return {};
  return {QUIRE_INCOMPATIBLE_ABI, 0,
          "libquire has ABI version " + std::to_string(version >> 16) + "." + std::to_string(version & 0xffffU) + ", libquire_zmq needs " +
              std::to_string(QUIRE_ABI_MAJOR) + "." + std::to_string(QUIRE_ABI_MINOR)};
}

Outcome check_publisher(const quire_event_publisher* publisher) {
  if (publisher == nullptr) return invalid("publisher is NULL");
  if (publisher->own->is_at_home()) return {};
  return {QUIRE_FAILED_PRECONDITION, 0, "publisher was created by another process, of which this one is a child"};
}

}  // namespace

quire_code quire_event_publisher_create(const quire_event_publisher_options* options, quire_event_publisher** out, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    if (out == nullptr) return invalid("out is NULL");
    PublisherOptions own;
    if (Outcome outcome = first_of(check_version(), read_options(options, &own)); !outcome.ok()) return outcome;
    auto publisher = std::make_unique<quire_event_publisher>();
    if (Outcome outcome = Publisher::open(std::move(own), &publisher->own); !outcome.ok()) return outcome;
    *out = publisher.release();
    return {};
  });
}

void quire_event_publisher_release(quire_event_publisher* publisher) {
  if (publisher == nullptr || !publisher->own->is_at_home()) return;  // a child has neither the thread nor the sockets
  delete publisher;
}

quire_code quire_event_publisher_publish(quire_event_publisher* publisher, const quire_event_message* message, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    if (Outcome outcome = check_publisher(publisher); !outcome.ok()) return outcome;
    quire_event_message own = {};
    if (Outcome outcome = read_descriptor(message, "message", kFirstMessage, &own); !outcome.ok()) return outcome;
    std::string medium, locality;
    if (Outcome outcome = first_of(read_text(own.medium, "message.medium", kMostLabel, "", &medium),
                                   read_text(own.locality, "message.locality", kMostLabel, "", &locality));
        !outcome.ok())
      return outcome;
    if (own.reserved0 != 0) return invalid("message.reserved0 is " + std::to_string(own.reserved0) + ", not 0");
    return publisher->own->publish(own);
  });
}

quire_code quire_event_publisher_follow(quire_event_publisher* publisher, quire_cache* cache, uint32_t flags, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    if (Outcome outcome = check_publisher(publisher); !outcome.ok()) return outcome;
    if ((flags & ~QUIRE_FOLLOW_SNAPSHOT) != 0) return invalid("flags is " + std::to_string(flags) + ", known is 1");
    return publisher->own->follow(cache, (flags & QUIRE_FOLLOW_SNAPSHOT) != 0);
  });
}

quire_code quire_event_publisher_get_stats(quire_event_publisher* publisher, quire_event_publisher_stats* stats, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    if (Outcome outcome = check_publisher(publisher); !outcome.ok()) return outcome;
    return write_info(publisher->own->stats(), "stats", stats);
  });
}

quire_code quire_event_publisher_get_info(quire_event_publisher* publisher, quire_event_publisher_info* info, quire_error* err) {
  return guarded_export(err, kSource, [&]() -> Outcome {
    if (Outcome outcome = check_publisher(publisher); !outcome.ok()) return outcome;
    return write_info(publisher->own->info(), "info", info);
  });
}
