// scheduler.h: requests served together: continuous batching, chunked prefill, prefix reuse,
// several samples of a prompt by fork, preemption, and drafts that a smaller model proposes.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "drafter.h"
#include "sampling.h"
#include "stepper.h"

namespace lm {

struct Request {
  std::vector<int32_t> prompt;
  uint32_t max_tokens = 128;  // to generate
  uint32_t samples = 1;
  Sampling sampling;
  std::vector<int32_t> stops;  // tokens that end a text; they are part of it
  std::string salt;            // requests of different salts share nothing
};

enum class Finish { kRunning, kStop, kLength };

// What became of one sample of a request.
struct Output {
  size_t request = 0;
  uint32_t sample = 0;
  std::vector<int32_t> tokens;  // generated
  Finish finish = Finish::kRunning;
  uint64_t prompt_tokens = 0;
  uint64_t hit_tokens = 0;  // of the prompt: reused when it was first admitted
  uint32_t preemptions = 0;
  double first_token_s = 0;  // since it was submitted
  double last_token_s = 0;
};

struct SchedulerStats {
  uint64_t steps = 0;
  uint64_t prefill_tokens = 0;  // computed
  uint64_t decode_tokens = 0;   // generated
  uint64_t hit_tokens = 0;
  uint64_t preemptions = 0;
  uint64_t drafted = 0;  // tokens that the draft proposed, and those that were accepted
  uint64_t accepted = 0;
  double seconds = 0;  // in steps
};

// What a status line shows.
struct Progress {
  uint64_t prompt_tokens = 0;  // of running requests, and how many of them are computed
  uint64_t prompt_done = 0;
  size_t running = 0;
  size_t waiting = 0;
};

class Scheduler {
 public:
  // budget: tokens of a step. drafter: NULL = none.
  Scheduler(const Stepper& stepper, uint32_t budget, Drafter* drafter = nullptr);
  ~Scheduler();

  // Called for every token that was generated, in the order of their positions.
  using OnToken = std::function<void(const Output& output, int32_t token)>;
  void on_token(OnToken callback) { on_token_ = std::move(callback); }

  // Errors: a prompt that is empty or longer than a sequence may be, tokens that are none.
  size_t submit(Request request);
  // One step. False if nothing is left to do. Errors: a sequence that does not fit alone.
  bool step();
  // Steps until all requests are done, and returns the samples of all requests so far, in the order
  // of their submission.
  const std::vector<Output>& finish();
  const std::vector<Output>& outputs() const { return outputs_; }

  const SchedulerStats& stats() const { return stats_; }
  Progress progress() const;

 private:
  struct Job;
  using Jobs = std::list<std::unique_ptr<Job>>;

  void propose();
  std::vector<Job*> choose(std::vector<Ask>& asks);
  void admit(std::vector<Job*>& jobs, std::vector<Ask>& asks, uint32_t budget);
  void take(Flight& flight, const std::vector<Job*>& jobs);
  std::vector<int32_t> verify(const Job& job, const Flight& flight, size_t row,
                              uint32_t count) const;
  void accept(Job& job, int32_t token);
  void fork_samples(Job& job, std::span<const float> logits);
  void refuse(const std::vector<quire_reserve_result>& results, const std::vector<Job*>& jobs,
              bool is_empty);
  void preempt(Job& job);
  void end(Job& job);

  const Stepper& stepper_;
  uint32_t budget_;
  Drafter* drafter_;
  OnToken on_token_;
  std::vector<Request> requests_;
  Jobs running_;  // oldest first
  Jobs waiting_;
  std::vector<Output> outputs_;
  SchedulerStats stats_;
  uint32_t cooldown_ = 0;  // steps in which nobody is admitted, after a preemption
};

}  // namespace lm
