// The redis connector and the kit: one server with one connection and with several, with a time to live, three servers.
#include <map>
#include <memory>
#include <vector>

#include "kit.h"
#include "redis_server.h"

using quire::kit::RedisServer;
using quire::kit::Subject;

namespace {

std::map<std::string, std::vector<std::unique_ptr<RedisServer>>>& servers() {
  static std::map<std::string, std::vector<std::unique_ptr<RedisServer>>> all;
  return all;
}

// A full server counts its own tables and buffers, too: some MiB for each. It refuses, for what others evict they do not tell at once.
Subject redis(const std::string& name, const std::string& fields, size_t count = 1) {
  Subject subject;
  subject.name = name;
  subject.connector = "redis";
  subject.evicts = false;
  subject.config = [=](uint64_t capacity, const std::string& place) {
    auto& own = servers()[place];
    // Of three servers only the small ones are filled.
    const uint64_t memory = capacity * (count == 1 || capacity > 16 * quire::kit::kMiB ? 2 : 1) + 2 * quire::kit::kMiB;
    const std::vector<std::string> options = {"--maxmemory", std::to_string(memory)};
    while (own.size() < count) own.push_back(std::make_unique<RedisServer>(options));
    std::string list;
    for (const auto& server : own) list += (list.empty() ? "" : ", ") + server->socket();
    return "{\"servers\": \"" + list + "\"" + fields + "}";
  };
  subject.clean = [](const std::string& place) { servers().erase(place); };
  return subject;
}

#if defined(__SANITIZE_THREAD__)  // the others differ in nothing that it looks at
INSTANTIATE_TEST_SUITE_P(Redis, ConnectorKit, testing::Values(redis("three", ", \"connections\": 2", 3)), quire::kit::name_of);
#else
INSTANTIATE_TEST_SUITE_P(Redis, ConnectorKit,
                         testing::Values(redis("one", ""), redis("connections", ", \"connections\": 3"),
                                         redis("expiring", ", \"ttl_ms\": 600000, \"database\": 3, \"prefix\": \"a*[b]:\""),
                                         redis("three", ", \"connections\": 2", 3)),
                         quire::kit::name_of);
#endif

}  // namespace
