#include "fleet.h"

#include <unistd.h>
#include <zmq.h>

#include <cstdio>
#include <optional>
#include <random>
#include <set>

#include "failure.h"
#include "fleet_store.h"
#include "router.h"

namespace fleet {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr auto kEndPatience = std::chrono::seconds(60);
constexpr long kPollMs = 10;

class Run {
 public:
  Run(const Options& options, const Mode& mode, const std::vector<Request>& requests);
  Result run();

 private:
  enum class State { kBlocked, kReady, kSent, kAnswered };

  void start();
  void wait_until_ready();
  void dispatch();
  std::vector<Candidate> ask_views(const Request& request) const;
  void wait() const;
  void follow();
  void take(const Answer& answer);
  void lose(Engine* engine);  // kills it; what it had is sent again
  void restart_engines();
  void disturb();
  Engine* victim();
  bool is_store_due() const;
  void disturb_store();
  void finish();
  void show_progress(bool is_over);

  const Options& options_;
  const Mode& mode_;
  const std::vector<Request>& requests_;
  const Folder folder_;
  const Sockets sockets_;
  std::optional<Store> store_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::mt19937_64 random_;
  std::vector<State> states_;                     // by id
  std::vector<std::vector<uint64_t>> followers_;  // by id: requests that come after it
  std::set<uint64_t> ready_;                      // ids
  uint64_t in_flight_ = 0;
  uint64_t next_kill_, next_stop_, next_store_kill_;  // answers
  Clock::time_point next_line_;
  Result result_;
};

Run::Run(const Options& options, const Mode& mode, const std::vector<Request>& requests)
    : options_(options),
      mode_(mode),
      requests_(requests),
      random_(options.seed),
      states_(requests.size(), State::kBlocked),
      followers_(requests.size()),
      next_kill_(options.kill_every != 0 ? options.kill_every : UINT64_MAX),
      next_stop_(options.stop_every != 0 ? options.stop_every : UINT64_MAX),
      next_store_kill_(options.kill_store && mode.has_store ? requests.size() / 2 : UINT64_MAX) {
  result_.name = mode.name;
  result_.answers.resize(requests.size());
  for (const Request& request : requests) {
    if (request.after) followers_[*request.after].push_back(request.id);
    if (request.after) continue;
    states_[request.id] = State::kReady;
    ready_.insert(request.id);
  }
}

void Run::start() {
  std::vector<std::string> command = {options_.engine};
  command.insert(command.end(), options_.engine_options.begin(), options_.engine_options.end());
  command.insert(command.end(), {"--verify", "--threads", "1"});
  command.insert(command.end(), {"--seed", std::to_string(options_.seed)});
  if (mode_.has_store) {
    store_.emplace(options_.store, folder_, options_.store_bytes);
    command.insert(command.end(), {"--tier", store_->tier()});
  }
  for (size_t place = 0; place < options_.engines; ++place) {
    engines_.push_back(std::make_unique<Engine>(command, folder_, place, sockets_));
    engines_.back()->start();
  }
  wait_until_ready();
}

void Run::wait_until_ready() {
  const auto all_ready = [this] {
    for (const auto& engine : engines_) {
      if (!engine->is_ready()) return false;
    }
    return true;
  };
  while (!all_ready()) {
    wait();
    follow();
  }
}

// Sends what may be sent, in the order of the workload.
void Run::dispatch() {
  if (is_store_due()) return;
  while (in_flight_ < options_.in_flight && !ready_.empty()) {
    const Request& request = requests_[*ready_.begin()];
    const uint64_t tokens = request.prompt.size();
    const std::vector<Candidate> candidates = ask_views(request);
    const std::optional<size_t> place = mode_.has_router
                                            ? choose_by_prefix(candidates, tokens, &random_)
                                            : choose_random(candidates, &random_);
    if (!place) return;
    engines_[*place]->give(request, tokens - candidates[*place].hit);
    states_[request.id] = State::kSent;
    ready_.erase(request.id);
    ++in_flight_;
  }
}

// No engine gets so many requests that the others have none.
std::vector<Candidate> Run::ask_views(const Request& request) const {
  const uint64_t most = (2 * options_.in_flight + options_.engines - 1) / options_.engines;
  std::vector<Candidate> candidates(engines_.size());
  std::vector<uint64_t> names;
  for (size_t e = 0; e < engines_.size(); ++e) {
    const Engine& engine = *engines_[e];
    candidates[e].is_free = engine.is_ready() && engine.num_open() < most;
    if (!candidates[e].is_free) continue;
    if (names.empty()) names = engine.layout().names(request.prompt, request.tenant);
    candidates[e].hit = engine.view().index().hit(names, request.prompt.size());
    candidates[e].work = engine.work();
  }
  return candidates;
}

// Until something arrives, but not for long.
void Run::wait() const {
  check_interrupted();
  std::vector<zmq_pollitem_t> items;
  for (const auto& engine : engines_) {
    if (!engine->is_started()) continue;
    items.push_back({nullptr, engine->output(), ZMQ_POLLIN, 0});
    if (!engine->is_ready()) continue;
    items.push_back({engine->subscriber().events(), 0, ZMQ_POLLIN, 0});
    items.push_back({engine->subscriber().replays(), 0, ZMQ_POLLIN, 0});
  }
  zmq_poll(items.data(), static_cast<int>(items.size()), kPollMs);
}

void Run::follow() {
  const auto on_answer = [this](const Answer& answer) { take(answer); };
  for (const auto& engine : engines_) {
    if (!engine->is_started()) continue;
    if (!engine->follow(on_answer)) throw Failure(engine->how_it_ended());
    if (!engine->is_ready() && engine->silence() > kStartPatience)
      throw Failure("an engine does not start");
    if (engine->num_open() == 0 || engine->silence() < std::chrono::seconds(options_.deadline))
      continue;
    ++result_.hangs;
    lose(engine.get());
  }
}

void Run::take(const Answer& answer) {
  if (answer.id >= states_.size() || states_[answer.id] != State::kSent)
    throw Failure("request " + std::to_string(answer.id) + " was answered, and was not open");
  states_[answer.id] = State::kAnswered;
  --in_flight_;
  ++result_.requests;
  result_.prompt_tokens += answer.prompt_tokens;
  result_.local_tokens += answer.hit_tokens - answer.fetched_tokens;
  result_.store_tokens += answer.fetched_tokens;
  result_.computed_tokens += answer.computed_tokens;
  result_.rows += answer.verified_rows;
  result_.mismatches += answer.mismatches;
  result_.answers[answer.id] = answer.tokens;
  for (const uint64_t next : followers_[answer.id]) {
    states_[next] = State::kReady;
    ready_.insert(next);
  }
}

void Run::lose(Engine* engine) {
  for (const uint64_t id : engine->kill([this](const Answer& answer) { take(answer); })) {
    states_[id] = State::kReady;
    ready_.insert(id);
    --in_flight_;
    ++result_.sent_again;
  }
}

// An engine does not open without its store.
void Run::restart_engines() {
  if (store_ && !store_->is_up()) return;
  for (const auto& engine : engines_) {
    if (!engine->is_started()) engine->start();
  }
}

// Any engine that has requests.
Engine* Run::victim() {
  std::vector<Engine*> busy;
  for (const auto& engine : engines_) {
    if (engine->is_ready() && engine->num_open() != 0) busy.push_back(engine.get());
  }
  return busy.empty() ? nullptr : busy[random_() % busy.size()];
}

void Run::disturb() {
  if (is_store_due()) return;
  if (result_.requests >= next_kill_) {
    if (Engine* const engine = victim()) {
      lose(engine);
      ++result_.kills;
      next_kill_ += options_.kill_every;
    }
  }
  if (result_.requests >= next_stop_) {
    if (const Engine* const engine = victim()) {
      engine->stop();
      next_stop_ += options_.stop_every;
    }
  }
}

// Whether the store is to be killed now. Nothing is sent and no engine is killed until it was, so
// that it dies in every run, however slowly engines start.
bool Run::is_store_due() const {
  return store_ && store_->is_up() && result_.requests >= next_store_kill_;
}

// It is killed when half of the requests are answered, and comes back after another tenth, or when
// no engine is left: an engine does not open without its store.
void Run::disturb_store() {
  if (!store_) return;
  bool is_any_started = false, is_any_opening = false;
  for (const auto& engine : engines_) {
    is_any_started = is_any_started || engine->is_started();
    is_any_opening = is_any_opening || (engine->is_started() && !engine->is_ready());
  }
  if (is_store_due() && !is_any_opening) {
    store_->kill();
    ++result_.store_kills;
    next_store_kill_ = result_.requests + requests_.size() / 10;
  } else if (!store_->is_up() && (result_.requests >= next_store_kill_ || !is_any_started)) {
    store_->start();
    next_store_kill_ = UINT64_MAX;
  }
}

void Run::finish() {
  const auto limit = Clock::now() + kEndPatience;
  wait_until_ready();  // one may have been started again a moment ago
  for (const auto& engine : engines_) engine->finish();
  for (const auto& engine : engines_) {
    while (engine->follow([this](const Answer& answer) { take(answer); })) {
      if (Clock::now() >= limit) throw Failure("an engine does not end");
      wait();
    }
    if (!engine->ended_well() && result_.mismatches == 0) throw Failure(engine->how_it_ended());
    result_.engines.add(engine->totals());
  }
}

// A line on a terminal, drawn anew now and then.
void Run::show_progress(bool is_over) {
  const auto now = Clock::now();
  if (isatty(STDERR_FILENO) == 0 || (!is_over && now < next_line_)) return;
  next_line_ = now + std::chrono::milliseconds(200);
  std::fprintf(stderr, is_over ? "\r\033[K" : "\r%s: %llu of %zu requests", mode_.name.c_str(),
               static_cast<unsigned long long>(result_.requests), requests_.size());
}

Result Run::run() {
  start();
  const auto begin = Clock::now();
  while (result_.requests < requests_.size() || is_store_due()) {
    dispatch();
    wait();
    follow();
    show_progress(false);
    disturb_store();
    if (result_.requests < requests_.size()) disturb();
    restart_engines();
  }
  show_progress(true);
  result_.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (store_ && !store_->is_up()) store_->start();
  restart_engines();
  finish();
  return result_;
}

}  // namespace

Result run_fleet(const Options& options, const Mode& mode, const std::vector<Request>& requests) {
  return Run(options, mode, requests).run();
}

}  // namespace fleet
