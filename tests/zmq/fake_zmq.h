// A libzmq of the test's own, linked in place of the real one: one call of choice fails, and what
// is sent is remembered.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace quire::wire {

struct FakeZmq {
  // The call after so many others fails with this error; -1: none does.
  int fails_after = -1;
  int error = 0;
  // Calls so far that can fail.
  int num_calls = 0;
  // Objects that were made and not given back.
  int num_contexts = 0, num_sockets = 0;
  // What is sent is remembered. Without it the fake allocates no more than frames and sockets.
  bool is_recording = true;
  // Messages of the socket of events, each with its frames.
  std::vector<std::vector<std::string>> sent;
  // Frames of requests that are still to be read, the last of each marked.
  struct Part {
    std::string bytes;
    bool is_last;
  };
  std::vector<Part> requests;
  std::vector<std::vector<std::string>> answers;
  // The thread that answers waits after so many answers, until this is changed; 0: it does not.
  size_t pauses_after = 0;
  size_t answers_before_last_sent = 0;
  // The socket of events has no room for messages that may not be dropped.
  bool is_full = false;
};

// The lock is held while the fake is looked at or changed.
FakeZmq& fake_zmq();
std::mutex& fake_zmq_mutex();
// Notified when pauses_after is changed.
std::condition_variable& fake_zmq_resumed();

}  // namespace quire::wire
