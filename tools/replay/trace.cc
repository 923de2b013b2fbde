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

bool read_line(gzFile_s* file, const std::string& path, std::string* line) {
  line->clear();
  char part[4096];
  while (gzgets(file, part, sizeof part) != nullptr) {
    *line += part;
    if (line->back() == '\n') return true;
  }
  int code = Z_OK;
  const char* message = gzerror(file, &code);
  if (code != Z_OK && code != Z_STREAM_END) throw std::runtime_error("cannot read trace '" + path + "': " + message);
  return !line->empty();
}

uint64_t length_of(const nlohmann::json& json, const char* field, uint64_t least) {
  const auto& value = json.at(field);
  if (!value.is_number_unsigned() || value.get<uint64_t>() < least || value.get<uint64_t>() > kMaxTokens) {
    throw std::runtime_error(std::string(field) + " is " + value.dump() + ", must be from " + std::to_string(least) + " to " +
                             std::to_string(kMaxTokens));
  }
  return value.get<uint64_t>();
}

Request parse(const std::string& line) {
  const nlohmann::json json = nlohmann::json::parse(line);
  Request request;
  request.input_length = length_of(json, "input_length", 1);
  request.output_length = std::max<uint64_t>(1, length_of(json, "output_length", 0));
  request.hash_ids = json.at("hash_ids").get<std::vector<uint64_t>>();
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
  for (uint64_t number = 1; (limit == 0 || requests.size() < limit) && read_line(file.get(), path, &line); ++number) {
    if (line.find_first_not_of(" \r\n") == std::string::npos) continue;
    try {
      requests.push_back(parse(line));
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
