// The formats of traces.
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "client/client.h"
#include "replay/trace.h"
#include "replay/trace_lines.h"

namespace quire::replay {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxTokens = 1u << 24;       // of one request: beyond any context, so a broken line cannot ask for all memory
constexpr size_t kMaxDocument = 256u << 20;     // bytes of a JSON document that is not in lines
constexpr size_t kMaxConversation = 16u << 20;  // bytes of one item of an array
constexpr uint64_t kMaxBlocks = 1u << 26;       // of all requests of a trace without text: half a gigabyte of ids
constexpr uint64_t kUsualOutput = 256;          // tokens, where a trace has prompts only: what vLLM's benchmark asks for

[[noreturn]] void refuse(const std::string& what) { throw std::runtime_error(what); }

// At most a line of what was found.
std::string shown(const Json& value) {
  constexpr size_t kMost = 64;
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost) + "..";
}

// The parser takes a NUL for the end of the text.
Json parse(const std::string& text) {
  if (client::nests_too_deep(text)) refuse("brackets nested deeper than 64");
  return text.find('\0') == std::string::npos ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
}

const Json& field_of(const Json& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end()) refuse(std::string(field) + " is missing");
  return *found;
}

uint64_t checked_length(const std::string& field, bool is_number, uint64_t value, uint64_t least, const std::string& text) {
  if (!is_number || value < least || value > kMaxTokens) {
    refuse(field + " is " + text + ", must be from " + std::to_string(least) + " to " + std::to_string(kMaxTokens));
  }
  return value;
}

uint64_t length_of(const Json& value, const std::string& field, uint64_t least) {
  return checked_length(field, value.is_number_unsigned(), value.is_number_unsigned() ? value.get<uint64_t>() : 0, least, shown(value));
}

// FNV-1a of a token's bytes: equal text gives equal symbols.
void add_text(const std::string& text, std::vector<quire_symbol>* out) {
  for (size_t from = 0; from < text.size(); from += kBytesPerToken) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = from; i < std::min(from + kBytesPerToken, text.size()); ++i) {
      hash = (hash ^ static_cast<unsigned char>(text[i])) * 0x100000001b3u;
    }
    out->push_back(static_cast<quire_symbol>((hash ^ hash >> 32) & 0x7fffffffu));
  }
}

class Reader {
 public:
  Reader(const std::string& path, const TraceOptions& options) : lines_(path), options_(options) {}

  std::vector<Request> read() {
    try {
      begin();
      if (options_.format == Format::kCsv) {
        read_csv();
      } else if (options_.format == Format::kShareGpt) {
        read_array();
      } else {
        read_lines();
      }
    } catch (const std::exception& failure) {
      const std::string what = failure.what();
      if (what.starts_with("cannot read trace")) throw;
      refuse("trace '" + lines_.path() + "', line " +
             std::to_string(item_line_ != 0 ? item_line_ : std::max<uint64_t>(1, lines_.number())) + ": " + what);
    }
    if (requests_.empty()) refuse("trace '" + lines_.path() + "' has no requests");
    return std::move(requests_);
  }

 private:
  bool done() const { return options_.limit != 0 && requests_.size() >= options_.limit; }

  // What the first line tells; it is kept for the format that it told.
  void begin() {
    while (std::isspace(lines_.peek()) != 0) lines_.take();
    const bool is_array = lines_.peek() == '[';
    if (options_.format == Format::kAuto && is_array) options_.format = Format::kShareGpt;
    if (options_.format == Format::kShareGpt) {
      if (!is_array) refuse("not a JSON array of conversations");
      return;
    }
    if (!lines_.next(&first_)) return;
    if (options_.format != Format::kAuto) return;
    const Json json = parse(first_);
    const bool is_table =
        first_.find(',') != std::string::npos && (first_.find("Tokens") != std::string::npos || first_.find("tokens") != std::string::npos);
    options_.format = json.is_object() && json.contains("hash_ids")                                  ? Format::kMooncake
                      : json.is_object() && (json.contains("prompt") || json.contains("input_lens")) ? Format::kVllm
                      : !json.is_object() && first_.starts_with('{')                                 ? Format::kVllm
                      : !json.is_object() && is_table                                                ? Format::kCsv
                                                                                                     : Format::kMooncake;
  }

  // JSON lines; a document of several lines is read whole.
  void read_lines() {
    std::string line = std::move(first_);
    do {
      if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
      Json json = parse(line);
      if (!json.is_object() && options_.format == Format::kVllm && requests_.empty()) json = parse(line + "\n" + lines_.rest(kMaxDocument));
      if (!json.is_object()) refuse("not a JSON object, or a number that is too large");
      options_.format == Format::kVllm ? add_vllm(json) : add_mooncake(json);
    } while (!done() && lines_.next(&line));
  }

  void add_mooncake(const Json& json) {
    Request request;
    request.block_tokens = options_.block_tokens;
    request.input_length = length_of(field_of(json, "input_length"), "input_length", 1);
    request.output_length = std::max<uint64_t>(1, length_of(field_of(json, "output_length"), "output_length", 0));
    // Mooncake's are milliseconds; seconds have a fraction.
    if (const auto at = json.find("timestamp"); at != json.end()) {
      if (at->is_number_unsigned()) request.arrival_ms = at->get<uint64_t>();
      if (at->is_number_float()) request.arrival_ms = milliseconds_of(at->get<double>());
    }
    const Json& ids = field_of(json, "hash_ids");
    if (!ids.is_array()) refuse("hash_ids is no list");
    request.hash_ids.reserve(ids.size());
    for (const Json& id : ids) {
      if (!id.is_number_unsigned()) refuse("hash_ids has " + shown(id) + "; must be whole numbers from 0 on");
      request.hash_ids.push_back(id.get<uint64_t>());
    }
    const uint64_t blocks = (request.input_length + request.block_tokens - 1) / request.block_tokens;
    if (request.hash_ids.size() < blocks) {
      refuse("hash_ids has " + std::to_string(request.hash_ids.size()) + " ids, input_length needs " + std::to_string(blocks) + " of " +
             std::to_string(request.block_tokens) + " tokens");
    }
    request.hash_ids.resize(blocks);
    requests_.push_back(std::move(request));
  }

  // A prompt of which nothing but its length is known: nobody else has its blocks.
  void add_lengths(uint64_t input, uint64_t output) {
    Request request;
    request.input_length = input;
    request.output_length = std::max<uint64_t>(1, output);
    request.hash_ids.resize((input + request.block_tokens - 1) / request.block_tokens);
    for (uint64_t& id : request.hash_ids) id = next_id_++;
    if (next_id_ > kMaxBlocks)
      refuse("the requests have more than " + std::to_string(kMaxBlocks * request.block_tokens) + " tokens in all");
    requests_.push_back(std::move(request));
  }

  void add_vllm(const Json& json) {
    if (json.contains("input_lens")) {
      const Json& inputs = json["input_lens"];
      const Json& outputs = field_of(json, "output_lens");
      if (!inputs.is_array() || !outputs.is_array() || inputs.size() != outputs.size()) {
        refuse("input_lens and output_lens must be lists of the same length");
      }
      for (size_t i = 0; i < inputs.size() && !done(); ++i) {
        const std::string at = "[" + std::to_string(i) + "]";
        const uint64_t input = length_of(inputs[i], "input_lens" + at, 0);
        const uint64_t output = length_of(outputs[i], "output_lens" + at, 0);
        if (input != 0) add_lengths(input, output);  // 0: a request that failed
      }
      return;
    }
    const Json& prompt = field_of(json, "prompt");
    if (!prompt.is_string()) refuse("prompt is " + shown(prompt) + ", must be a text");
    auto text = std::make_shared<std::vector<quire_symbol>>();
    add_text(prompt.get_ref<const std::string&>(), text.get());
    Request request;
    request.input_length = checked_length("prompt", true, text->size(), 1, std::to_string(text->size()) + " tokens");
    const auto output = json.find("output_tokens");
    request.output_length = output == json.end() ? kUsualOutput : std::max<uint64_t>(1, length_of(*output, "output_tokens", 0));
    request.text = std::move(text);
    requests_.push_back(std::move(request));
  }

  static std::vector<std::string> cells_of(const std::string& line) {
    std::vector<std::string> out(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ',' && !quoted) {
        out.emplace_back();
      } else if (c != '\r') {
        out.back() += c;
      }
    }
    return out;
  }

  static size_t column_of(const std::vector<std::string>& heading, std::initializer_list<const char*> names) {
    for (size_t i = 0; i < heading.size(); ++i) {
      for (const char* name : names) {
        if (heading[i] == name) return i;
      }
    }
    refuse(std::string("no column ") + *names.begin() + " or " + *(names.end() - 1));
  }

  static uint64_t cell_length(const std::vector<std::string>& cells, size_t column, const std::string& name, uint64_t least) {
    if (column >= cells.size()) refuse(name + " is missing");
    const std::string& text = cells[column];
    const bool digits = !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
    return checked_length(name, digits, digits ? std::stoull(text) : 0, least, "'" + text.substr(0, 64) + "'");
  }

  // 0 for what is no time.
  static uint64_t milliseconds_of(double seconds) {
    return seconds >= 0 && seconds < 1e15 ? static_cast<uint64_t>(std::llround(seconds * 1000)) : 0;
  }

  // Seconds (BurstGPT), or a date with a time of day (Azure).
  static uint64_t time_of(const std::string& text) {
    int year = 0, month = 0, day = 0, hour = 0, minute = 0;
    double second = 0;
    if (std::sscanf(text.c_str(), "%4d-%2d-%2d %2d:%2d:%lf", &year, &month, &day, &hour, &minute, &second) == 6) {
      const auto date = std::chrono::year(year) / month / day;
      if (!date.ok() || hour < 0 || hour > 23 || minute < 0 || minute > 59) return 0;
      const auto days = std::chrono::sys_days(date).time_since_epoch().count();
      return milliseconds_of(86400.0 * static_cast<double>(days) + 3600.0 * hour + 60.0 * minute + second);
    }
    char* end = nullptr;
    const double seconds = std::strtod(text.c_str(), &end);
    return end != text.c_str() && *end == '\0' ? milliseconds_of(seconds) : 0;
  }

  void read_csv() {
    const std::vector<std::string> heading = cells_of(first_);
    const auto is_time = [](const std::string& name) { return name == "TIMESTAMP" || name == "Timestamp"; };
    const auto times = static_cast<size_t>(std::find_if(heading.begin(), heading.end(), is_time) - heading.begin());
    const size_t inputs = column_of(heading, {"ContextTokens", "Request tokens"});
    const size_t outputs = column_of(heading, {"GeneratedTokens", "Response tokens"});
    std::string line;
    while (!done() && lines_.next(&line)) {
      if (line.find_first_not_of(" \r\t") == std::string::npos) continue;
      const std::vector<std::string> cells = cells_of(line);
      const uint64_t input = cell_length(cells, inputs, heading[inputs], 0);
      const uint64_t output = cell_length(cells, outputs, heading[outputs], 0);
      if (input == 0) continue;  // a request that failed
      add_lengths(input, output);
      if (times < cells.size()) requests_.back().arrival_ms = time_of(cells[times]);
    }
  }

  // An array that may be larger than memory: one item after the other.
  void read_array() {
    lines_.take();
    for (bool more = true; more && !done();) {
      const std::string item = next_item(&more);
      if (item.empty()) {
        if (more) refuse("an item of the array is empty");
        return;
      }
      const Json json = parse(item);
      if (!json.is_object()) refuse("not a JSON object, or a number that is too large");
      add_conversation(json);
    }
  }

  // Up to the comma behind it, or the end of the array.
  std::string next_item(bool* more) {
    std::string out;
    int depth = 0;
    bool in_text = false;
    item_line_ = lines_.number() + 1;
    for (int c = lines_.take(); c != -1; c = lines_.take()) {
      if (out.empty() && std::isspace(c) != 0) {
        item_line_ = lines_.number() + 1;
        continue;
      }
      if (!in_text && depth == 0 && (c == ',' || c == ']')) {
        *more = c == ',';
        return out;
      }
      if (out.size() == kMaxConversation) refuse("an item of the array is longer than " + std::to_string(kMaxConversation) + " bytes");
      out += static_cast<char>(c);
      if (in_text && c == '\\') {
        const int next = lines_.take();
        if (next != -1) out += static_cast<char>(next);
      } else if (c == '"') {
        in_text = !in_text;
      } else if (!in_text) {
        depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      }
    }
    refuse("the array does not end");
  }

  static const std::string& text_of(const Json& turn, const char* field) {
    const Json& value = field_of(turn, field);
    if (!value.is_string()) refuse(std::string(field) + " is " + shown(value) + ", must be a text");
    return value.get_ref<const std::string&>();
  }

  // Every answer is a request; its prompt is all before it.
  void add_conversation(const Json& json) {
    const bool messages = json.contains("messages");
    const Json& turns = messages ? json["messages"] : field_of(json, "conversations");
    if (!turns.is_array()) refuse(messages ? "messages is no list" : "conversations is no list");
    auto text = std::make_shared<std::vector<quire_symbol>>();
    std::vector<Request> found;
    for (const Json& turn : turns) {
      if (!turn.is_object()) refuse("a turn is " + shown(turn) + ", must be an object");
      const std::string& who = text_of(turn, messages ? "role" : "from");
      const uint64_t before = text->size();
      // Who speaks is part of the text: an answer that is given as a question is another prompt.
      add_text(who, text.get());
      const uint64_t start = text->size();
      add_text(text_of(turn, messages ? "content" : "value"), text.get());
      const bool answer = who == "gpt" || who == "assistant" || who == "chatgpt" || who == "bing" || who == "bard";
      if (!answer || before == 0) continue;
      Request request;
      request.input_length = start;
      request.output_length = std::max<uint64_t>(1, text->size() - start);
      found.push_back(std::move(request));
    }
    checked_length("a conversation", true, text->size(), 0, std::to_string(text->size()) + " tokens");
    for (Request& request : found) {
      if (done()) return;
      request.text = text;
      request.continues = &request != found.data();
      requests_.push_back(std::move(request));
    }
  }

  Lines lines_;
  TraceOptions options_;
  std::string first_;
  std::vector<Request> requests_;
  uint64_t next_id_ = 0;
  uint64_t item_line_ = 0;  // of the item of an array that is read
};

}  // namespace

Format format_of(const std::string& name) {
  constexpr const char* kNames[] = {"auto", "mooncake", "csv", "sharegpt", "vllm"};
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Format>(i);
  }
  throw std::invalid_argument("trace format '" + name + "' is unknown; must be auto, mooncake, csv, sharegpt or vllm");
}

std::vector<Request> read_trace(const std::string& path, const TraceOptions& options) { return Reader(path, options).read(); }

}  // namespace quire::replay
