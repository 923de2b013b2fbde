// The publisher's thread: sends what is queued, keeps the last batches, and answers who asks for
// them. Answers are sent in pieces between batches, so that nobody who asks holds up the others.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "plugins/zmq/queue.h"
#include "plugins/zmq/sockets.h"

namespace quire::zmq {

// Written by the thread, read by any.
struct Counters {
  std::atomic<uint64_t> sent{0}, dropped{0}, overruns{0}, kept{0}, kept_bytes{0}, oldest_kept{UINT64_MAX};
  std::atomic<uint64_t> subscriptions{0}, replays{0}, replayed{0}, late_replays{0}, malformed_requests{0};
};

struct SenderOptions {
  std::string topic;
  uint64_t buffer_steps = 0;
  uint64_t buffer_bytes = 0;
};

class Sender {
 public:
  Sender(const SenderOptions& options, Sockets* sockets, Queue* queue, Counters* counters)
      : options_(options), sockets_(sockets), queue_(queue), counters_(counters) {}
  // Until the queue was closed, and is empty or late.
  void run();

 private:
  struct Replay {
    Frame client;
    uint64_t next;  // number
    uint64_t end;
  };

  bool is_over(bool has_more) const;
  void send(Batch batch);
  void keep(Batch batch);
  void count_subscriptions();
  void read_request();
  void begin_replay(std::vector<Frame> request);
  void replay_some();
  void answer(std::string_view topic, uint64_t number, Frame payload);

  const SenderOptions options_;
  Sockets* const sockets_;
  Queue* const queue_;
  Counters* const counters_;
  std::deque<Batch> kept_;  // by number, with gaps where batches were dropped
  uint64_t kept_bytes_ = 0;
  uint64_t next_number_ = 0;  // of the batch after the last one that was taken from the queue
  std::optional<Replay> replay_;
};

}  // namespace quire::zmq
