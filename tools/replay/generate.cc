#include "replay/generate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <stdexcept>

namespace quire::replay {
namespace {

// splitmix64: equal draws on every machine, which the distributions of the standard library are not.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u) {}
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  uint64_t between(uint64_t least, uint64_t most) { return least + next() % (most - least + 1); }
  bool one_in(uint64_t n) { return next() % n == 0; }
  double share() { return static_cast<double>(next() >> 11) / 9007199254740992.0; }

 private:
  uint64_t state_;
};

using Text = std::vector<quire_symbol>;

void add(Text* text, uint64_t id, uint64_t tokens) {
  Dice dice(id);
  for (uint64_t i = 0; i < tokens; ++i) text->push_back(static_cast<quire_symbol>(dice.next() & 0x7fffffffu));
}

void sort_by_arrival(std::vector<Request>* trace) {
  std::stable_sort(trace->begin(), trace->end(), [](const Request& a, const Request& b) { return a.arrival_ms < b.arrival_ms; });
}

// What is made is kept in memory: at the most some gigabytes.
struct Kind {
  const char* name;
  uint64_t most;
  std::vector<Request> (*make)(uint64_t count, uint64_t seed);
};
constexpr Kind kKinds[] = {
    {"agents", 10000, generate_agents}, {"documents", 100000, generate_documents}, {"conversations", 1000000, generate_trace}};

}  // namespace

std::vector<Request> generate_agents(uint64_t sessions, uint64_t seed) {
  constexpr uint64_t kSystem = 6000, kRepositories = 12, kLongest = 120000;
  Dice dice(seed);
  uint64_t next_id = (seed << 32) + 1000, begin = 0;
  std::vector<Request> trace;
  for (uint64_t s = 0; s < sessions; ++s) {
    auto text = std::make_shared<Text>();
    add(text.get(), 1, kSystem);
    const uint64_t repository = dice.between(0, kRepositories - 1);
    add(text.get(), 10 + repository, 2000 + 6000 * repository / (kRepositories - 1));
    add(text.get(), next_id++, dice.between(50, 800));  // what is to be done
    uint64_t at = begin += dice.between(0, 40000);
    const uint64_t turns = dice.between(10, 60);
    for (uint64_t t = 0; t < turns; ++t) {
      Request request;
      request.arrival_ms = at;
      request.input_length = text->size();
      request.output_length = dice.between(40, 600);
      request.text = text;
      add(text.get(), next_id++, request.output_length);
      add(text.get(), next_id++, dice.one_in(8) ? dice.between(1500, 8000) : dice.between(50, 1500));
      trace.push_back(std::move(request));
      at += dice.one_in(6) ? dice.between(5000, 300000) : dice.between(1000, 20000);
      if (text->size() > kLongest) break;
    }
  }
  sort_by_arrival(&trace);
  return trace;
}

std::vector<Request> generate_documents(uint64_t requests, uint64_t seed) {
  constexpr uint64_t kDocuments = 400, kSystem = 800;
  Dice dice(seed);
  std::vector<uint64_t> lengths(kDocuments);
  std::vector<double> shares(kDocuments);
  double all = 0;
  for (uint64_t d = 0; d < kDocuments; ++d) {
    lengths[d] = dice.between(2000, 30000);
    shares[d] = all += std::pow(static_cast<double>(d + 1), -0.9);
  }
  uint64_t next_id = (seed << 32) + 1000, arrival = 0;
  std::vector<Request> trace;
  while (trace.size() < requests) {
    arrival += dice.between(0, 600);
    const auto drawn = std::lower_bound(shares.begin(), shares.end(), dice.share() * all);
    const auto document = static_cast<uint64_t>(std::min<std::ptrdiff_t>(drawn - shares.begin(), kDocuments - 1));
    auto text = std::make_shared<Text>();
    add(text.get(), 1, kSystem);
    add(text.get(), 10 + document, lengths[document]);
    const uint64_t questions = dice.one_in(3) ? dice.between(2, 3) : 1;
    uint64_t at = arrival;
    for (uint64_t q = 0; q < questions && trace.size() < requests; ++q) {
      add(text.get(), next_id++, dice.between(20, 400));
      Request request;
      request.arrival_ms = at;
      request.input_length = text->size();
      request.output_length = dice.between(30, 500);
      request.text = text;
      add(text.get(), next_id++, request.output_length);
      trace.push_back(std::move(request));
      at += dice.between(10000, 120000);
    }
  }
  sort_by_arrival(&trace);
  return trace;
}

bool is_made(const std::string& name) {
  const size_t colon = name.find(':');
  if (colon == std::string::npos) return false;
  return std::any_of(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return name.compare(0, colon, kind.name) == 0; });
}

std::vector<Request> make_trace(const std::string& name, uint64_t seed) {
  const size_t colon = name.find(':');
  const std::string digits = colon == std::string::npos ? "" : name.substr(colon + 1);
  for (const Kind& kind : kKinds) {
    if (name.compare(0, colon, kind.name) != 0) continue;
    const bool number = !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos;
    const uint64_t count = number ? std::stoull(digits) : 0;
    if (count >= 1 && count <= kind.most) return kind.make(count, seed);
    throw std::invalid_argument("trace '" + name + "': must be " + kind.name + ":1.." + std::to_string(kind.most));
  }
  throw std::invalid_argument("trace '" + name + "' is none that can be made; must be agents:N, documents:N or conversations:N");
}

}  // namespace quire::replay
