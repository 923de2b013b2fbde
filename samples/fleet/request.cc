#include "request.h"

#include <poll.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "failure.h"
#include "process.h"

namespace fleet {
namespace {

Request request_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line);
  Request request;
  request.id = json.at("id");
  if (json.contains("after")) request.after = json.at("after").get<uint64_t>();
  request.tenant = json.at("tenant");
  request.prompt = json.at("prompt").get<std::vector<int64_t>>();
  request.line = line + "\n";
  return request;
}

}  // namespace

std::vector<Request> list_requests(const std::vector<std::string>& engine,
                                   const std::string& error_file) {
  std::vector<std::string> command = engine;
  command.push_back("--list-requests");
  Process process(command, error_file);
  process.close_input();
  std::string text;
  pollfd output = {process.output(), POLLIN, 0};
  while (process.read(&text)) {
    poll(&output, 1, 100);
    check_interrupted();
  }
  if (!wait_for(&process, 10'000)) throw Failure(engine.front() + " does not end");
  if (process.exit_code() != 0)
    throw Failure(
        engine.front() + " --list-requests: " + process.ending() + "\n" + process.last_words(),
        process.exit_code() == kUsage ? kUsage : kFailed);
  std::vector<Request> requests;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    requests.push_back(request_of(line));
    if (requests.back().id != requests.size() - 1 ||
        requests.back().after.value_or(0) >= requests.size())
      throw Failure("the requests of " + engine.front() + " are not numbered from 0");
  }
  return requests;
}

}  // namespace fleet
