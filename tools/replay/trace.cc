#include "replay/trace.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace quire::replay {
namespace {

constexpr uint64_t kMaxTokens = 1u << 24;  // of one request: beyond any context, so a broken line cannot ask for all memory
constexpr size_t kMaxLine = 16u << 20;     // bytes

uint64_t mix(uint64_t x) {  // splitmix64: a bijection that spreads neighbours apart
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

quire_symbol to_symbol(uint64_t hash) { return static_cast<quire_symbol>(hash & 0x7fffffffu); }

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using File = std::unique_ptr<gzFile_s, Close>;

File open(const std::string& path) {
  File file(path == "-" ? gzdopen(0, "rb") : gzopen(path.c_str(), "rb"));
  if (file == nullptr) throw std::runtime_error("cannot read trace '" + path + "': " + std::strerror(errno));
  return file;
}

// Throws where the file cannot be read, and of a line what is wrong with it.
bool read_line(gzFile_s* file, const std::string& path, std::string* line) {
  line->clear();
  for (int c = gzgetc(file); c != -1; c = gzgetc(file)) {
    if (c == '\n') return true;
    if (line->size() == kMaxLine) throw std::runtime_error("a line is longer than " + std::to_string(kMaxLine) + " bytes");
    *line += static_cast<char>(c);
  }
  int code = Z_OK;
  const char* message = gzerror(file, &code);
  if (code != Z_OK && code != Z_STREAM_END) throw std::runtime_error("cannot read trace '" + path + "': " + message);
  return !line->empty();
}

const nlohmann::json& field_of(const nlohmann::json& json, const char* field) {
  const auto found = json.find(field);
  if (found == json.end()) throw std::runtime_error(std::string(field) + " is missing");
  return *found;
}

uint64_t length_of(const nlohmann::json& json, const char* field, uint64_t least) {
  const nlohmann::json& value = field_of(json, field);
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least || value.get<uint64_t>() > kMaxTokens) {
    throw std::runtime_error(std::string(field) + " is " + value.dump() + ", must be from " + std::to_string(least) + " to " +
                             std::to_string(kMaxTokens));
  }
  return value.get<uint64_t>();
}

Request parse(const std::string& line) {
  // The parser takes a NUL for the end of the text.
  const nlohmann::json json = line.find('\0') == std::string::npos ? nlohmann::json::parse(line, nullptr, false) : nlohmann::json();
  if (!json.is_object()) throw std::runtime_error("not a JSON object, or a number that is too large");
  Request request;
  request.input_length = length_of(json, "input_length", 1);
  request.output_length = std::max<uint64_t>(1, length_of(json, "output_length", 0));
  const nlohmann::json& ids = field_of(json, "hash_ids");
  if (!ids.is_array()) throw std::runtime_error("hash_ids is no list");
  request.hash_ids.reserve(ids.size());
  for (const nlohmann::json& id : ids) {
    if (!id.is_number_unsigned()) throw std::runtime_error("hash_ids has " + id.dump().substr(0, 64) + "; must be whole numbers from 0 on");
    request.hash_ids.push_back(id.get<uint64_t>());
  }
  const uint64_t blocks = (request.input_length + kTraceBlockTokens - 1) / kTraceBlockTokens;
  if (request.hash_ids.size() < blocks) {
    throw std::runtime_error("hash_ids has " + std::to_string(request.hash_ids.size()) + " ids, input_length needs " +
                             std::to_string(blocks));
  }
  request.hash_ids.resize(blocks);
  return request;
}

}  // namespace

std::vector<Request> read_trace(const std::string& path, uint64_t limit) {
  const File file = open(path);
  std::vector<Request> requests;
  std::string line;
  for (uint64_t number = 1; limit == 0 || requests.size() < limit; ++number) {
    try {
      if (!read_line(file.get(), path, &line)) break;
      if (line.find_first_not_of(" \r") != std::string::npos) requests.push_back(parse(line));
    } catch (const std::exception& failure) {
      throw std::runtime_error("trace '" + path + "', line " + std::to_string(number) + ": " + failure.what());
    }
  }
  if (requests.empty()) throw std::runtime_error("trace '" + path + "' has no requests");
  return requests;
}

std::vector<Request> generate_trace(uint64_t requests, uint64_t seed) {
  struct Conversation {
    std::vector<uint64_t> blocks;  // complete ones
    uint64_t tokens = 0;
  };
  std::vector<Conversation> open(std::min<uint64_t>(64, requests));
  std::vector<Request> trace;
  uint64_t state = seed;
  uint64_t next_id = 1000;
  const auto draw = [&state](uint64_t below) { return mix(state += 0x9e3779b97f4a7c15u) % below; };
  while (trace.size() < requests) {
    Conversation& conversation = open[draw(open.size())];
    if (conversation.tokens == 0 || draw(8) == 0) {  // a new conversation: one of 4 system prompts of 1 to 4 blocks
      const uint64_t system = draw(4);
      conversation.blocks.clear();
      for (uint64_t i = 0; i <= system; ++i) conversation.blocks.push_back(100 * system + i);
      conversation.tokens = conversation.blocks.size() * kTraceBlockTokens;
    }
    conversation.tokens += 100 + draw(1900);
    while ((conversation.blocks.size() + 1) * kTraceBlockTokens <= conversation.tokens) conversation.blocks.push_back(next_id++);
    Request request;
    request.input_length = conversation.tokens;
    request.output_length = 20 + draw(380);
    request.hash_ids = conversation.blocks;
    request.hash_ids.push_back(next_id++);  // the last, incomplete block is a text of its own
    request.hash_ids.resize((request.input_length + kTraceBlockTokens - 1) / kTraceBlockTokens);
    trace.push_back(std::move(request));
  }
  return trace;
}

void prompt_symbols(const Request& request, std::vector<quire_symbol>* symbols) {
  symbols->resize(request.input_length);
  for (uint64_t i = 0; i < request.input_length; ++i) {
    (*symbols)[i] = to_symbol(mix(request.hash_ids[i / kTraceBlockTokens] * kTraceBlockTokens + i % kTraceBlockTokens));
  }
}

quire_symbol output_symbol(uint64_t index, uint64_t position) { return to_symbol(mix((index << 32 | position) ^ 0x5bd1e995u)); }

}  // namespace quire::replay
