// The mooncake connector and the kit, over the fake library: with a few threads, and with one.
#include <filesystem>
#include <fstream>

#include "mooncake_rig.h"

using quire::kit::Subject;

namespace {

// In memory: how fast the disk is shall not decide.
std::string directory_of(const std::string& place) {
  const std::filesystem::path memory = "/dev/shm";
  const std::filesystem::path top = std::filesystem::is_directory(memory) ? memory : std::filesystem::temp_directory_path();
  return (top / ("quire-mooncake-" + place)).string();
}

// A full store refuses, for what others evict they do not say.
Subject mooncake(const std::string& name, const std::string& fields) {
  Subject subject = quire::test::mooncake_subject();
  subject.name = name;
  subject.evicts = false;
  subject.config = [=](uint64_t capacity, const std::string& place) {
    const std::string directory = directory_of(place);
    std::filesystem::create_directories(directory);
    std::ofstream(directory + "/capacity") << capacity + capacity / 2;
    return quire::test::mooncake_config(directory, ", \"object_bytes\": \"64MiB\"" + fields);
  };
  subject.clean = [](const std::string& place) { std::filesystem::remove_all(directory_of(place)); };
  return subject;
}

INSTANTIATE_TEST_SUITE_P(Mooncake, ConnectorKit,
                         testing::Values(mooncake("plain", ""),
                                         mooncake("one", ", \"threads\": 1, \"lease_ms\": 5000, \"prefix\": \"a*[b]:\"")),
                         quire::kit::name_of);

}  // namespace
