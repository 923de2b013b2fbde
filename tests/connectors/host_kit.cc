// The host connector and the kit: private memory with one and with several threads, small chunks, and shared memory.
#include <unistd.h>

#include "kit.h"

using quire::kit::Subject;

namespace {

Subject host(const std::string& name, const std::string& fields, bool shared) {
  Subject subject;
  subject.name = name;
  subject.connector = "host";
  subject.config = [=](uint64_t capacity, const std::string& place) {
    const std::string own = shared ? ", \"shared\": \"" + place + "\"" : "";
    return "{\"bytes\": " + std::to_string(capacity) + own + fields + "}";
  };
  if (shared) subject.clean = [](const std::string& place) { unlink(("/dev/shm/quire-" + place).c_str()); };
  return subject;
}

#if defined(__SANITIZE_THREAD__)  // the others differ in nothing that it looks at
INSTANTIATE_TEST_SUITE_P(Host, ConnectorKit, testing::Values(host("threads", ", \"threads\": 3", false)), quire::kit::name_of);
#else
INSTANTIATE_TEST_SUITE_P(Host, ConnectorKit,
                         testing::Values(host("private", "", false), host("threads", ", \"threads\": 3", false),
                                         host("chunks", ", \"chunk_bytes\": \"4KiB\"", false), host("shared", "", true)),
                         quire::kit::name_of);
#endif

}  // namespace
