// fleet_engine.h: one place of the fleet: an engine process, what it has been asked, and what its
// events say. If the process dies, another one takes the place, at the same endpoints.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "process.h"
#include "request.h"
#include "subscriber.h"
#include "view.h"

namespace fleet {

// Sums over all processes that had a place.
struct EngineTotals {
  uint64_t starts = 0;
  uint64_t bytes_stored = 0, bytes_loaded = 0;      // of the store, as the engines last said
  uint64_t batches = 0, replays = 0, given_up = 0;  // of events

  void add(const EngineTotals& other);
};

class Engine {
 public:
  using Clock = std::chrono::steady_clock;
  using OnAnswer = std::function<void(const Answer&)>;

  // command: the program and its options. It is started with start().
  Engine(const std::vector<std::string>& command, const Folder& folder, size_t place,
         const Sockets& sockets);

  void start();
  // Whether it may be given requests.
  bool is_ready() const { return view_ != nullptr; }
  bool is_started() const { return process_ != nullptr; }
  // Since it was heard, or first had something to do.
  Clock::duration silence() const { return Clock::now() - heard_; }

  // work: tokens that it has to compute for the request, about.
  void give(const Request& request, uint64_t work);
  // Sends, and takes what has arrived: answers, events. Returns false if the process has ended.
  bool follow(const OnAnswer& on_answer);
  // After the last request: no more will come. It ends with follow() returning false.
  void finish() const;
  bool ended_well() const;  // it said so, with exit code 0
  std::string how_it_ended() const;

  void stop() const;  // SIGSTOP: it hangs
  // Kills and forgets the process. What it answered before is taken. Returns the ids of requests
  // that it has not answered.
  std::vector<uint64_t> kill(const OnAnswer& on_answer);

  const View& view() const { return *view_; }
  const Layout& layout() const { return layout_; }
  size_t num_open() const { return open_.size(); }
  uint64_t work() const;  // of all that is open
  EngineTotals totals() const;
  int output() const { return process_->output(); }
  bool has_unsent() const { return !unsent_.empty(); }
  const Subscriber& subscriber() const { return *subscriber_; }

 private:
  void take_lines(const OnAnswer& on_answer);
  void take_line(const std::string& line, const OnAnswer& on_answer);
  void greet(const nlohmann::json& greeting);
  void count_events();

  std::vector<std::string> command_;
  const std::string name_, error_file_, events_, replays_;
  const Sockets& sockets_;
  std::unique_ptr<Process> process_;
  Layout layout_;
  std::unique_ptr<View> view_;
  std::unique_ptr<Subscriber> subscriber_;
  std::map<uint64_t, uint64_t> open_;  // work by id
  std::string unsent_, unread_;
  Clock::time_point heard_;
  bool has_said_goodbye_ = false;
  uint64_t rows_ = 0;    // verified, of this process
  EngineTotals before_;  // of earlier processes
  uint64_t bytes_stored_ = 0, bytes_loaded_ = 0;
};

}  // namespace fleet
