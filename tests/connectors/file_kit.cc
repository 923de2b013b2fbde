// The file connector and the kit: on a disk; in memory with and without O_DIRECT and fdatasync, and with one read or write at a time.
#include <unistd.h>

#include <filesystem>

#include "kit.h"

using quire::kit::Subject;

namespace {

// Processes of one machine have folders of their own.
std::string folder(const std::string& top, const std::string& place) {
  return top + "/quire-file-kit-" + std::to_string(getpid()) + "-" + place;
}

Subject file(const std::string& name, const std::string& top, const std::string& fields) {
  Subject subject;
  subject.name = name;
  subject.connector = "file";
  subject.config = [=](uint64_t capacity, const std::string& place) {
    return "{\"directory\": \"" + folder(top, place) + "\", \"bytes\": " + std::to_string(capacity) + fields + "}";
  };
  subject.clean = [=](const std::string& place) { std::filesystem::remove_all(folder(top, place)); };
  return subject;
}

const std::string kDisk = std::filesystem::temp_directory_path().string();
const std::string kMemory = std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : kDisk;

INSTANTIATE_TEST_SUITE_P(File, ConnectorKit,
                         testing::Values(file("disk", kDisk, ""), file("memory", kMemory, ""),
                                         file("cached", kMemory, ", \"direct\": false, \"sync\": false"),
                                         file("single", kMemory, ", \"depth\": 1")),
                         quire::kit::name_of);

}  // namespace
