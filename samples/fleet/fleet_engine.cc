#include "fleet_engine.h"

#include <csignal>
#include <nlohmann/json.hpp>

#include "failure.h"

namespace fleet {

using nlohmann::json;

void EngineTotals::add(const EngineTotals& other) {
  starts += other.starts;
  bytes_stored += other.bytes_stored;
  bytes_loaded += other.bytes_loaded;
  batches += other.batches;
  replays += other.replays;
  given_up += other.given_up;
}

Engine::Engine(const std::vector<std::string>& command, const Folder& folder, size_t place,
               const Sockets& sockets)
    : command_(command),
      name_("engine " + std::to_string(place)),
      error_file_(folder.file(name_ + ".log")),
      events_("ipc://" + folder.file("events-" + std::to_string(place))),
      replays_("ipc://" + folder.file("replays-" + std::to_string(place))),
      sockets_(sockets) {
  command_.insert(command_.end(), {"--serve", "--events", events_, "--event-replays", replays_});
}

void Engine::start() {
  process_ = std::make_unique<Process>(command_, error_file_);
  ++before_.starts;
  heard_ = Clock::now();
}

void Engine::give(const Request& request, uint64_t work) {
  if (open_.empty()) heard_ = Clock::now();
  open_.emplace(request.id, work);
  unsent_ += request.line;
}

uint64_t Engine::work() const {
  uint64_t sum = 0;
  for (const auto& [id, tokens] : open_) sum += tokens;
  return sum;
}

bool Engine::follow(const OnAnswer& on_answer) {
  if (!unsent_.empty()) unsent_.erase(0, process_->write(unsent_));
  const bool is_open = process_->read(&unread_);
  take_lines(on_answer);
  if (subscriber_ != nullptr) subscriber_->follow();
  return is_open || !process_->has_ended();
}

void Engine::take_lines(const OnAnswer& on_answer) {
  size_t begin = 0;
  for (size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n', begin)) {
    heard_ = Clock::now();
    take_line(unread_.substr(begin, end - begin), on_answer);
    begin = end + 1;
  }
  unread_.erase(0, begin);
}

void Engine::take_line(const std::string& text, const OnAnswer& on_answer) {
  const json line = json::parse(text);
  if (line.contains("ready")) return greet(line);
  if (line.contains("ended")) {
    has_said_goodbye_ = line.at("verified_rows") == rows_;
    return;
  }
  Answer answer;
  answer.id = line.at("id");
  answer.prompt_tokens = line.at("prompt_tokens");
  answer.hit_tokens = line.at("hit_tokens");
  answer.fetched_tokens = line.at("fetched_tokens");
  answer.computed_tokens = line.at("computed_tokens");
  answer.verified_rows = line.at("verified_rows");
  answer.mismatches = line.at("mismatches");
  answer.tokens = line.at("answer").get<std::vector<uint32_t>>();
  bytes_stored_ = line.at("bytes_stored");
  bytes_loaded_ = line.at("bytes_loaded");
  rows_ += answer.verified_rows;
  if (open_.erase(answer.id) == 0)
    throw Failure(name_ + " answers request " + std::to_string(answer.id) +
                  ", which it does not have");
  view_->expect(line.at("event_batches"));
  on_answer(answer);
}

// Now its sockets are there.
void Engine::greet(const json& greeting) {
  layout_ = layout_of(greeting);
  view_ = std::make_unique<View>(layout_);
  subscriber_ = std::make_unique<Subscriber>(sockets_, events_, replays_, view_.get());
}

void Engine::finish() const { process_->close_input(); }

bool Engine::ended_well() const { return has_said_goodbye_ && process_->exit_code() == 0; }

std::string Engine::how_it_ended() const {
  return name_ + " ended: " + process_->ending() + "\n" + process_->last_words();
}

void Engine::stop() const { process_->send_signal(SIGSTOP); }

void Engine::count_events() {
  if (view_ == nullptr) return;
  before_.batches += view_->batches();
  before_.given_up += view_->given_up();
  before_.replays += subscriber_->asked();
}

std::vector<uint64_t> Engine::kill(const OnAnswer& on_answer) {
  process_->kill();
  process_->read(&unread_);
  take_lines(on_answer);
  count_events();
  before_.bytes_stored += bytes_stored_;
  before_.bytes_loaded += bytes_loaded_;
  bytes_stored_ = bytes_loaded_ = rows_ = 0;
  subscriber_.reset();
  view_.reset();
  process_.reset();
  unsent_.clear();
  unread_.clear();
  has_said_goodbye_ = false;
  std::vector<uint64_t> unanswered;
  for (const auto& [id, work] : open_) unanswered.push_back(id);
  open_.clear();
  return unanswered;
}

EngineTotals Engine::totals() const {
  EngineTotals sum = before_;
  sum.bytes_stored += bytes_stored_;
  sum.bytes_loaded += bytes_loaded_;
  if (view_ != nullptr) {
    sum.batches += view_->batches();
    sum.given_up += view_->given_up();
    sum.replays += subscriber_->asked();
  }
  return sum;
}

}  // namespace fleet
