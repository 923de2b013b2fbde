// quire_generate: text from a published checkpoint.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "lm_error.h"
#include "request_file.h"

namespace {

using nlohmann::json;

const char* finish_name(lm::Finish finish) {
  return finish == lm::Finish::kStop ? "stop" : "length";
}

json to_json(const lm::Session& session, const lm::Output& output, const std::string& id) {
  json line = {{"id", id},
               {"sample", output.sample},
               {"tokens", output.tokens},
               {"prompt_tokens", output.prompt_tokens},
               {"hit_tokens", output.hit_tokens},
               {"preemptions", output.preemptions},
               {"finish", finish_name(output.finish)},
               {"first_token_s", output.first_token_s},
               {"last_token_s", output.last_token_s}};
  if (!session.options().ids) line["text"] = session.text_of(output.tokens);
  return line;
}

json stats_json(lm::Session& session) {
  const lm::SchedulerStats& stats = session.scheduler().stats();
  const quire_cache_stats cache = session.kv().cache().stats();
  const quire_config_info plan = session.kv().info();
  return {{"steps", stats.steps},
          {"seconds", stats.seconds},
          {"prefill_tokens", stats.prefill_tokens},
          {"decode_tokens", stats.decode_tokens},
          {"hit_tokens", stats.hit_tokens},
          {"preemptions", stats.preemptions},
          {"drafted", stats.drafted},
          {"accepted", stats.accepted},
          {"policy", plan.policy},
          {"pages", plan.num_pages},
          {"pool_bytes", session.kv().bytes()},
          {"max_len", plan.max_model_len},
          {"evicted_blocks", cache.evicted_blocks},
          {"device", session.kv().device_name()}};
}

void print_json(const json& line) {
  std::printf("%s\n", line.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
  std::fflush(stdout);
}

// Writes texts as they come: one text at once as a stream, several when they are done.
class Printer {
 public:
  Printer(lm::Session& session, lm::StatusLine& status, bool is_stream)
      : session_(session), status_(status), is_stream_(is_stream) {
    session.scheduler().on_token(
        [this](const lm::Output& output, int32_t token) { take(output, token); });
  }
  void name(size_t request, std::string id) { names_[request] = std::move(id); }

 private:
  void take(const lm::Output& output, int32_t token) {
    const bool is_done = output.finish != lm::Finish::kRunning;
    if (session_.options().json) {
      if (is_done) print_json(to_json(session_, output, name_of(output.request)));
      return;
    }
    if (is_stream_) {
      status_.clear();
      const bool separates = session_.options().ids && output.tokens.size() > 1;
      std::printf("%s%s%s", separates ? "," : "", session_.text_of({token}).c_str(),
                  is_done ? "\n" : "");
      std::fflush(stdout);
    } else if (is_done) {
      status_.clear();
      std::printf("[%s.%u] %s\n", name_of(output.request).c_str(), output.sample,
                  session_.text_of(output.tokens).c_str());
      std::fflush(stdout);
    }
  }
  std::string name_of(size_t request) const {
    const auto found = names_.find(request);
    return found == names_.end() ? std::to_string(request) : found->second;
  }

  lm::Session& session_;
  lm::StatusLine& status_;
  bool is_stream_;
  std::map<size_t, std::string> names_;
};

void run_all(lm::Session& session, lm::StatusLine& status) {
  while (session.scheduler().step()) status.show(session.scheduler(), session.kv());
  status.clear();
}

void run_prompts(lm::Session& session, lm::StatusLine& status) {
  std::vector<lm::Request> requests;
  for (const std::string& text : session.options().prompts)
    requests.push_back(session.request(session.encode(text)));
  for (const auto& tokens : session.options().token_prompts)
    requests.push_back(session.request(tokens));
  session.allocate(status);
  const Printer printer(session, status, requests.size() == 1 && session.options().samples == 1);
  for (lm::Request& request : requests) session.scheduler().submit(std::move(request));
  run_all(session, status);
}

// Conversations branch: a request goes on after another one is done.
void run_file(lm::Session& session, lm::StatusLine& status) {
  std::ifstream file;
  const std::string& path = session.options().requests;
  if (path != "-") file.open(path);
  if (path != "-" && !file) throw lm::Error(path + ": cannot be read");
  std::vector<lm::FileRequest> requests = lm::read_requests(path == "-" ? std::cin : file, session);
  const bool has_turns = std::any_of(requests.begin(), requests.end(),
                                     [](const lm::FileRequest& r) { return !r.user.empty(); });
  const std::optional<lm::Chat> chat =
      has_turns ? std::optional<lm::Chat>(session.tokenizer()) : std::nullopt;
  session.allocate(status);
  Printer printer(session, status, false);
  lm::Scheduler& scheduler = session.scheduler();
  std::map<std::string, std::vector<int32_t>> conversations;  // of the requests that are done
  std::map<size_t, std::pair<std::string, std::vector<int32_t>>> running;
  std::vector<bool> is_submitted(requests.size());
  const auto submit_ready = [&] {
    for (size_t i = 0; i < requests.size(); ++i) {
      const lm::FileRequest& from = requests[i];
      if (is_submitted[i] ||
          (!from.after.empty() && conversations.find(from.after) == conversations.end()))
        continue;
      lm::Request request = from.request;
      if (!from.user.empty()) {
        request.prompt =
            from.after.empty() ? chat->open(session.options().system) : conversations[from.after];
        const std::vector<int32_t> turn = chat->turn(from.user);
        request.prompt.insert(request.prompt.end(), turn.begin(), turn.end());
      }
      is_submitted[i] = true;
      std::vector<int32_t> prompt = request.prompt;
      const size_t number = scheduler.submit(std::move(request));
      printer.name(number, from.id);
      running[number] = {from.id, std::move(prompt)};
    }
  };
  for (submit_ready(); scheduler.step(); submit_ready()) {
    status.show(scheduler, session.kv());
    for (const lm::Output& output : scheduler.outputs()) {
      const auto at = running.find(output.request);
      if (output.sample != 0 || output.finish == lm::Finish::kRunning || at == running.end())
        continue;
      auto& [id, tokens] = at->second;
      tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
      if (chat) {
        const std::vector<int32_t> end = chat->after(output.tokens.back());
        tokens.insert(tokens.end(), end.begin(), end.end());
      }
      conversations[id] = std::move(tokens);
      running.erase(at);
    }
  }
  status.clear();
}

void run_chat(lm::Session& session, lm::StatusLine& status) {
  const lm::Chat chat(session.tokenizer());
  std::vector<int32_t> tokens = chat.open(session.options().system);
  const std::vector<std::string>& prompts = session.options().prompts;
  session.allocate(status);
  const Printer printer(session, status, true);
  for (size_t turn = 0;; ++turn) {
    std::string text;
    if (!prompts.empty()) {
      if (turn == prompts.size()) return;
      text = prompts[turn];
      if (!session.options().json) std::printf("> %s\n", text.c_str());
    } else {
      if (status.is_shown()) std::fprintf(stderr, "> ");
      if (!std::getline(std::cin, text)) return;
      if (text.empty()) continue;
    }
    const std::vector<int32_t> asked = chat.turn(text);
    tokens.insert(tokens.end(), asked.begin(), asked.end());
    const size_t prompt = tokens.size();
    lm::Request request = session.request(tokens);
    request.stops.push_back(chat.stop());
    const size_t number = session.scheduler().submit(std::move(request));
    run_all(session, status);
    for (const lm::Output& output : session.scheduler().outputs()) {
      if (output.request != number) continue;
      tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
      const std::vector<int32_t> end = chat.after(output.tokens.back());
      tokens.insert(tokens.end(), end.begin(), end.end());
      if (status.is_shown()) {
        std::fprintf(stderr, "\x1b[2m%llu of %zu tokens hit, first token after %.3f s; %s\x1b[0m\n",
                     static_cast<unsigned long long>(output.hit_tokens), prompt,
                     output.first_token_s, lm::summary(session.scheduler(), session.kv()).c_str());
      }
    }
  }
}

void generate(const lm::GenerateOptions& options) {
  lm::StatusLine status(!options.quiet && !options.json);
  lm::Session session(options);
  if (options.chat) {
    run_chat(session, status);
  } else if (!options.requests.empty()) {
    run_file(session, status);
  } else {
    run_prompts(session, status);
  }
  if (options.json) print_json({{"all", stats_json(session)}});
}

// Activations of a step are freed and needed again in the next one: they stay with the process.
void keep_freed_memory() {
  constexpr int kLargest = 1 << 30;
  ::mallopt(M_MMAP_THRESHOLD, kLargest);
  ::mallopt(M_TRIM_THRESHOLD, kLargest);
}

}  // namespace

int main(int argc, char** argv) {
  keep_freed_memory();
  int status = 0;
  const std::optional<lm::GenerateOptions> options = lm::read_options(argc, argv, &status);
  if (!options) return status;
  try {
    generate(*options);
    return 0;
  } catch (const quire::Exception& failure) {
    std::fprintf(stderr, "quire_generate: %s: %s\n", std::string(failure.error().name()).c_str(),
                 failure.what());
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "quire_generate: %s\n", failure.what());
  }
  return 1;
}
