#include "request_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "foreign_json.h"
#include "lm_error.h"

namespace lm {
namespace {

using nlohmann::json;

// A field that is a number, whole if it is kept as one, and within limits. Absent: what it was.
template <class T>
void read_number(const json& line, const char* field, int64_t least, int64_t most, T& number) {
  if (!line.contains(field)) return;
  const json& value = line[field];
  const bool is_kind = std::is_integral_v<T> ? value.is_number_integer() : value.is_number();
  const double read = is_kind ? value.get<double>() : NAN;
  if (!(read >= static_cast<double>(least) && read <= static_cast<double>(most))) {
    throw Error(std::string(field) + " is " + value.dump() + ", must be " +
                (std::is_integral_v<T> ? "a whole number" : "a number") + " from " +
                std::to_string(least) + " to " + std::to_string(most));
  }
  number = value.get<T>();
}

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
  // The limits of the command line.
  read_number(line, "max_tokens", 1, 1 << 20, r.max_tokens);
  read_number(line, "samples", 1, 1024, r.samples);
  read_number(line, "temperature", 0, 100, r.sampling.temperature);
  read_number(line, "top_k", 0, 1 << 30, r.sampling.top_k);
  read_number(line, "top_p", 0, 1, r.sampling.top_p);
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
