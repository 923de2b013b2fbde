// A publisher: encodes in the caller's thread, queues, and follows a cache. Its own thread sends.
#pragma once

#include <quire/zmq.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plugins/zmq/queue.h"
#include "plugins/zmq/sender.h"
#include "plugins/zmq/sockets.h"

namespace quire::zmq {

struct PublisherOptions {
  SocketOptions sockets;
  SenderOptions sender;
  uint64_t max_queue_size = 0;
  uint64_t max_queue_bytes = 0;
  uint32_t flags = 0;
  int32_t rank = 0;
  uint32_t linger_ms = 0;
  std::string medium, locality;
};

class Publisher {
 public:
  static Outcome open(PublisherOptions options, std::unique_ptr<Publisher>* out);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  // The process that opened it is this one.
  bool is_at_home() const;
  // As in quire/zmq.h; empty texts of the message are those of the options.
  Outcome publish(const quire_event_message& message);
  Outcome follow(quire_cache* cache, bool snapshot);
  quire_event_publisher_stats stats() const;
  quire_event_publisher_info info() const;

 private:
  struct ReleaseCache {
    void operator()(quire_cache* cache) const { quire_cache_release(cache); }
  };

  explicit Publisher(PublisherOptions options);
  Outcome start();
  // Into encoded_.
  Outcome encode(const quire_event_message& message, uint64_t* bytes);
  uint64_t num_dropped() const;
  Outcome publish_read(uint64_t num_events, uint64_t num_bytes);
  // is_late: the cache has overwritten what comes next.
  Outcome publish_new(quire_cache* cache, bool* is_late);
  Outcome publish_snapshot(quire_cache* cache);

  const PublisherOptions options_;
  const pid_t home_;
  std::unique_ptr<Sockets> sockets_;
  Queue queue_;
  Counters counters_;
  std::unique_ptr<Sender> sender_;
  std::thread thread_;

  std::mutex encoding_;  // of what follows
  std::vector<uint8_t> encoded_;

  std::unique_ptr<quire_cache, ReleaseCache> cache_;  // that is followed
  uint64_t next_event_ = 0;
  uint64_t known_drops_ = 0;  // which a snapshot made good
  bool lost_snapshot_ = false;
  std::vector<quire_event> events_;
  std::vector<uint64_t> data_;
  std::atomic<uint64_t> snapshots_{0};
};

}  // namespace quire::zmq
