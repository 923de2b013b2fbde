#include "scheduler.h"

#include <algorithm>
#include <chrono>

#include "lm_error.h"

namespace lm {
namespace {

constexpr uint32_t kCooldownSteps = 4;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// One sample of a request.
struct Scheduler::Job {
  size_t request = 0;
  size_t output = 0;    // index in outputs_; names the job to the drafter, too
  Live live;            // tokens: the prompt and what was generated
  size_t prompt = 0;    // tokens
  size_t proposed = 0;  // draft tokens at the end of live.tokens
  double submitted = 0;
  bool was_admitted = false;
  bool is_parent = false;  // its request has more samples, which fork from it

  uint64_t known() const { return live.tokens.size() - proposed; }
  uint64_t rest() const { return known() - live.reserved; }
  void drop_proposals() {
    live.tokens.resize(known());
    proposed = 0;
  }
};

Scheduler::Scheduler(const Stepper& stepper, uint32_t budget, Drafter* drafter)
    : stepper_(stepper), budget_(budget), drafter_(drafter) {
  const uint32_t row = drafter == nullptr ? 1 : drafter->tokens() + 1;
  if (budget < row)
    throw Error("a step of " + std::to_string(budget) + " tokens has no room for a row of " +
                std::to_string(row) + " (see --budget)");
}
Scheduler::~Scheduler() = default;

size_t Scheduler::submit(Request request) {
  const uint64_t longest = stepper_.kv().max_len();
  if (request.prompt.empty()) throw Error("the prompt has no tokens");
  if (request.prompt.size() >= longest) {
    throw Error("the prompt has " + std::to_string(request.prompt.size()) +
                " tokens, a sequence at most " + std::to_string(longest) +
                " (see --context and --pool)");
  }
  request.samples = std::max(request.samples, 1U);
  for (uint32_t sample = 0; sample < request.samples; ++sample) {
    outputs_.push_back({});
    outputs_.back().request = requests_.size();
    outputs_.back().sample = sample;
    outputs_.back().prompt_tokens = request.prompt.size();
  }
  auto job = std::make_unique<Job>();
  job->request = requests_.size();
  job->output = outputs_.size() - request.samples;
  job->prompt = request.prompt.size();
  job->submitted = now();
  job->is_parent = request.samples > 1;
  job->live.tokens = request.prompt;
  waiting_.push_back(std::move(job));
  requests_.push_back(std::move(request));
  return requests_.size() - 1;
}

// What this step asks for: those that decode first, then prompts that go on, then new ones.
std::vector<Scheduler::Job*> Scheduler::choose(std::vector<Ask>& asks) {
  std::vector<Job*> jobs;
  uint32_t budget = budget_;
  const uint32_t keep = stepper_.kv().has_states() ? QUIRE_ENTRY_KEEP_STATE : 0;
  for (const auto& job : running_) {
    const auto tokens = static_cast<uint32_t>(job->rest() + job->proposed);
    if (job->rest() != 1 || tokens > budget) continue;
    asks.push_back({&job->live, tokens, keep});
    jobs.push_back(job.get());
    budget -= tokens;
  }
  for (const auto& job : running_) {
    if (job->rest() == 1 || budget == 0) continue;
    const auto tokens = static_cast<uint32_t>(std::min<uint64_t>(job->rest(), budget));
    asks.push_back({&job->live, tokens, 0});
    jobs.push_back(job.get());
    budget -= tokens;
  }
  if (cooldown_ == 0 || running_.empty()) admit(jobs, asks, budget);
  return jobs;
}

void Scheduler::admit(std::vector<Job*>& jobs, std::vector<Ask>& asks, uint32_t budget) {
  const Kv& kv = stepper_.kv();
  size_t count = running_.size();
  for (const auto& job : waiting_) {
    if (budget == 0 || count++ >= kv.settings().max_sequences) return;
    auto identity = quire::make<quire_identity>();
    identity.salt = quire::text(requests_[job->request].salt);
    const std::vector<quire_symbol> symbols(job->live.tokens.begin(), job->live.tokens.end());
    const quire_probe_result found = kv.cache().probe(symbols, identity);
    const auto tokens =
        static_cast<uint32_t>(std::min<uint64_t>(symbols.size() - found.hit_tokens, budget));
    job->live = stepper_.begin(std::move(job->live.tokens), requests_[job->request].salt);
    asks.push_back({&job->live, tokens, QUIRE_ENTRY_MATCH});
    jobs.push_back(job.get());
    budget -= tokens;
  }
}

bool Scheduler::step() {
  if (running_.empty() && waiting_.empty()) return false;
  const double begin = now();
  if (drafter_ != nullptr) propose();
  std::vector<Ask> asks;
  const std::vector<Job*> jobs = choose(asks);
  cooldown_ = cooldown_ == 0 ? 0 : cooldown_ - 1;
  Flight flight = stepper_.reserve(asks);
  // Who was admitted runs from now on.
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (flight.results[i].code != QUIRE_OK) continue;
    const auto job = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const auto& j) { return j.get() == jobs[i]; });
    if (job == waiting_.end()) continue;
    Output& output = outputs_[jobs[i]->output];
    stats_.hit_tokens += flight.results[i].hit_tokens;
    if (!std::exchange(jobs[i]->was_admitted, true))
      output.hit_tokens = flight.results[i].hit_tokens;
    running_.splice(running_.end(), waiting_, job);
  }
  // Who was refused gives its sequence back before samples fork: the cache has a limit of them.
  for (const auto& job : waiting_) job->live.sequence = {};
  const bool is_empty = !flight;
  if (!is_empty) take(flight, jobs);
  for (const auto& job : running_) job->drop_proposals();
  refuse(flight.results, jobs, is_empty);
  ++stats_.steps;
  stats_.seconds += now() - begin;
  return true;
}

void Scheduler::propose() {
  std::vector<Drafter::Want> wants;
  std::vector<Job*> jobs;
  for (const auto& job : running_) {
    const Request& request = requests_[job->request];
    const uint64_t left = request.max_tokens - outputs_[job->output].tokens.size();
    const uint64_t room = stepper_.kv().max_len() - job->live.tokens.size();
    const auto most =
        static_cast<uint32_t>(std::min({uint64_t{drafter_->tokens()}, left - 1, room}));
    if (job->rest() != 1 || most == 0) continue;
    wants.push_back({job->output, &job->live.tokens, most});
    jobs.push_back(job.get());
  }
  const std::vector<std::vector<int32_t>> proposals = drafter_->propose(wants);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i]->live.tokens.insert(jobs[i]->live.tokens.end(), proposals[i].begin(),
                                proposals[i].end());
    jobs[i]->proposed = proposals[i].size();
    stats_.drafted += proposals[i].size();
  }
}

// Runs the step, samples, commits.
void Scheduler::take(Flight& flight, const std::vector<Job*>& jobs) {
  std::vector<Job*> rows;
  std::vector<uint32_t> wanted;
  for (const StepRow& row : flight.rows) {
    rows.push_back(*std::find_if(jobs.begin(), jobs.end(),
                                 [&](const Job* job) { return &job->live == row.live; }));
    const Job& job = *rows.back();
    const bool is_prefill = row.position + row.tokens < job.known();
    wanted.push_back(
        is_prefill ? 0 : static_cast<uint32_t>(row.position + row.tokens - job.known() + 1));
    if (row.position < job.prompt) {
      stats_.prefill_tokens += std::min<uint64_t>(row.tokens, job.prompt - row.position);
    }
  }
  stepper_.run(flight, wanted);
  std::vector<uint32_t> accepted;
  std::vector<std::vector<int32_t>> next;
  for (size_t r = 0; r < rows.size(); ++r) {
    next.push_back(wanted[r] == 0 ? std::vector<int32_t>{}
                                  : verify(*rows[r], flight, r, wanted[r]));
    // Of the proposals those are kept that came out again; the last token is new.
    const uint32_t rejected =
        wanted[r] == 0 ? 0 : wanted[r] - static_cast<uint32_t>(next[r].size());
    accepted.push_back(flight.rows[r].tokens - rejected);
    if (!next[r].empty()) stats_.accepted += next[r].size() - 1;
  }
  stepper_.commit(flight, accepted);
  for (size_t r = 0; r < rows.size(); ++r) {
    Job& job = *rows[r];
    job.drop_proposals();
    if (job.is_parent && !next[r].empty())
      fork_samples(job, flight.logits.row(flight.first_logits[r]));
    for (const int32_t token : next[r]) {
      if (outputs_[job.output].finish == Finish::kRunning) accept(job, token);
    }
    if (outputs_[job.output].finish != Finish::kRunning) end(job);
  }
}

// The tokens that come out of a row: proposals as long as they are what is sampled, then one more.
std::vector<int32_t> Scheduler::verify(const Job& job, const Flight& flight, size_t row,
                                       uint32_t count) const {
  std::vector<int32_t> tokens;
  const Sampling& sampling = requests_[job.request].sampling;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t position = job.known() + i;
    tokens.push_back(sample_token(flight.logits.row(flight.first_logits[row] + i), sampling,
                                  outputs_[job.output].sample, position));
    if (position >= job.live.tokens.size() || tokens.back() != job.live.tokens[position]) break;
  }
  return tokens;
}

void Scheduler::accept(Job& job, int32_t token) {
  Output& output = outputs_[job.output];
  const Request& request = requests_[job.request];
  job.live.tokens.push_back(token);
  output.tokens.push_back(token);
  ++stats_.decode_tokens;
  output.last_token_s = now() - job.submitted;
  if (output.tokens.size() == 1) output.first_token_s = output.last_token_s;
  if (std::find(request.stops.begin(), request.stops.end(), token) != request.stops.end()) {
    output.finish = Finish::kStop;
  } else if (output.tokens.size() >= request.max_tokens ||
             job.live.tokens.size() >= stepper_.kv().max_len()) {
    output.finish = Finish::kLength;
  }
  if (on_token_) on_token_(output, token);
}

// The other samples of a prompt share all of its blocks from here on.
void Scheduler::fork_samples(Job& parent, std::span<const float> logits) {
  parent.is_parent = false;
  const Request& request = requests_[parent.request];
  for (uint32_t sample = 1; sample < request.samples; ++sample) {
    auto child = std::make_unique<Job>();
    child->request = parent.request;
    child->output = parent.output + sample;
    child->prompt = parent.prompt;
    child->submitted = parent.submitted;
    child->was_admitted = true;
    outputs_[child->output].hit_tokens = outputs_[parent.output].hit_tokens;
    const bool has_room = running_.size() < stepper_.kv().settings().max_sequences;
    if (has_room) child->live = stepper_.fork(parent.live);
    child->live.tokens = request.prompt;
    Job& job = *child;
    (has_room ? running_ : waiting_).push_back(std::move(child));
    accept(job, sample_token(logits, request.sampling, sample, job.prompt));
    if (outputs_[job.output].finish != Finish::kRunning) end(job);
  }
}

// Refused entries: the youngest that runs makes room; if nobody runs, the request does not fit.
void Scheduler::refuse(const std::vector<quire_reserve_result>& results,
                       const std::vector<Job*>& jobs, bool is_empty) {
  bool is_short = false;
  for (size_t i = 0; i < results.size(); ++i) {
    const quire_reserve_result& result = results[i];
    if (result.code == QUIRE_OK || result.reason == QUIRE_REFUSAL_STEP_FULL) continue;
    if (result.code != QUIRE_RESOURCE_EXHAUSTED) {
      throw Error("request " + std::to_string(jobs[i]->request) + ": " +
                  std::string(quire::refusal_text(result.reason)));
    }
    const bool runs = std::any_of(running_.begin(), running_.end(),
                                  [&](const auto& job) { return job.get() == jobs[i]; });
    is_short = is_short || runs;
    const bool is_alone = is_empty && running_.size() == (runs ? 1U : 0U);
    // Without that reason a sequence that runs alone fits when it starts again.
    if (!is_alone || (runs && result.reason != QUIRE_REFUSAL_NEVER_FITS)) continue;
    throw Error("request " + std::to_string(jobs[i]->request) + ": its " +
                std::to_string(jobs[i]->live.tokens.size()) + " tokens do not fit in the pool of " +
                std::to_string(stepper_.kv().info().num_pages) + " pages; raise --pool");
  }
  if (is_short) {
    preempt(*running_.back());
    cooldown_ = kCooldownSteps;
  }
}

void Scheduler::preempt(Job& job) {
  stepper_.preempt(job.live);
  ++stats_.preemptions;
  ++outputs_[job.output].preemptions;
  job.live.sequence = {};
  waiting_.splice(waiting_.begin(), running_, std::prev(running_.end()));
}

void Scheduler::end(Job& job) {
  if (drafter_ != nullptr) drafter_->forget(job.output);
  for (Jobs* jobs : {&running_, &waiting_})
    jobs->remove_if([&](const auto& j) { return j.get() == &job; });
}

const std::vector<Output>& Scheduler::finish() {
  while (step()) {
  }
  return outputs_;
}

Progress Scheduler::progress() const {
  Progress progress;
  progress.running = running_.size();
  progress.waiting = waiting_.size();
  for (const auto& job : running_) {
    progress.prompt_tokens += job->prompt;
    progress.prompt_done += std::min<uint64_t>(job->live.committed, job->prompt);
  }
  return progress;
}

}  // namespace lm
