#include "request_file.h"

#include <nlohmann/json.hpp>
#include <set>

#include "foreign_json.h"
#include "lm_error.h"

namespace lm {
namespace {

using nlohmann::json;

FileRequest read_request(const json& line, size_t number, const Session& session) {
  static const std::set<std::string> known = {"id",    "after",      "prompt",  "tokens",
                                              "user",  "max_tokens", "samples", "temperature",
                                              "top_k", "top_p",      "seed",    "salt"};
  for (const auto& [field, value] : line.items()) {
    if (known.find(field) == known.end()) throw Error("there is no field '" + field + "'");
  }
  if (line.contains("prompt") + line.contains("tokens") + line.contains("user") != 1) {
    throw Error("it needs one of prompt, tokens and user");
  }
  FileRequest made;
  made.id = line.value("id", std::to_string(number));
  made.after = line.value("after", "");
  if (!made.after.empty() && !line.contains("user")) throw Error("after needs user");
  std::vector<int32_t> prompt = {0};
  if (line.contains("prompt")) prompt = session.encode(line["prompt"].get<std::string>());
  if (line.contains("tokens")) prompt = line["tokens"].get<std::vector<int32_t>>();
  made.request = session.request(std::move(prompt));
  if (line.contains("user")) {
    made.user = line["user"].get<std::string>();
    made.request.prompt.clear();
  }
  Request& r = made.request;
  r.max_tokens = std::max(line.value("max_tokens", r.max_tokens), 1U);
  r.samples = std::max(line.value("samples", r.samples), 1U);
  r.sampling.temperature = line.value("temperature", r.sampling.temperature);
  r.sampling.top_k = line.value("top_k", r.sampling.top_k);
  r.sampling.top_p = line.value("top_p", r.sampling.top_p);
  r.sampling.seed = line.value("seed", r.sampling.seed);
  r.salt = line.value("salt", "");
  return made;
}

}  // namespace

std::vector<FileRequest> read_requests(std::istream& in, const Session& session) {
  std::vector<FileRequest> requests;
  std::set<std::string> ids;
  std::string text;
  for (size_t number = 1; std::getline(in, text); ++number) {
    if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = "requests, line " + std::to_string(number) + ": ";
    try {
      const json line = parse_object(text, "it");
      FileRequest request = read_request(line, number, session);
      if (!ids.insert(request.id).second) throw Error("id '" + request.id + "' is there twice");
      if (!request.after.empty() && ids.find(request.after) == ids.end())
        throw Error("no earlier request has the id '" + request.after + "'");
      requests.push_back(std::move(request));
    } catch (const json::exception& failure) {
      throw Error(where + failure.what());
    } catch (const Error& failure) {
      throw Error(where + failure.what());
    }
  }
  if (requests.empty()) throw Error("requests: there are none");
  return requests;
}

}  // namespace lm
