#include "plugins/mooncake/mooncake_config.h"

#include <algorithm>

#include "plugins/common/nanoseconds.h"
#include "plugins/common/settings.h"

namespace quire::mooncake {
namespace {

constexpr uint64_t kMostThreads = 64;
constexpr uint64_t kMostBuffers = 256;
constexpr uint64_t kMostObject = uint64_t{1} << 30;
constexpr size_t kMostPrefix = 128;
using plugins::kMillisecond;

// Keys of Mooncake are texts that end with a zero.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

int64_t milliseconds(plugins::Settings* settings, std::string_view name, uint64_t low, uint64_t high, uint64_t absent) {
  return static_cast<int64_t>(settings->number(name, low, high, absent)) * kMillisecond;
}

}  // namespace

Outcome read_config(std::string_view json, Config* out) {
  plugins::Settings settings(json);
  out->library = settings.text("library", "libmooncake_store.so");
  out->master = settings.text("master", "");
  settings.require("master", "where the master of the store listens, such as \"10.0.0.1:50051\"");
  out->metadata = settings.text("metadata", "P2PHANDSHAKE");
  out->host = settings.text("host", "localhost");
  out->protocol = settings.text("protocol", "tcp");
  out->device = settings.text("device", "");
  out->prefix = settings.text("prefix", "quire:");
  out->segment_bytes = settings.size("segment_bytes", 0, uint64_t{1} << 46, 0);
  out->object_bytes = settings.size("object_bytes", 4096, kMostObject, uint64_t{16} << 20);
  out->threads = static_cast<uint32_t>(settings.number("threads", 1, kMostThreads, 4));
  out->buffers = static_cast<uint32_t>(settings.number("buffers", 1, kMostBuffers, uint64_t{2} * out->threads));
  out->replicas = static_cast<uint32_t>(settings.number("replicas", 1, 16, 1));
  out->lease_ns = milliseconds(&settings, "lease_ms", 0, 86'400'000, 0);
  out->timeout_ns = milliseconds(&settings, "timeout_ms", 1, 600'000, 5000);
  out->connect_timeout_ns = milliseconds(&settings, "connect_timeout_ms", 1, 600'000, 10'000);
  const std::pair<const char*, const std::string*> texts[] = {{"library", &out->library},   {"master", &out->master},
                                                              {"metadata", &out->metadata}, {"host", &out->host},
                                                              {"protocol", &out->protocol}, {"prefix", &out->prefix}};
  for (const auto& [name, text] : texts) {
    if (text->empty() && settings.has(name)) settings.refuse("config field " + std::string(name) + " is empty");
    // A path may have any bytes; what Mooncake is given as words may not.
    if (text != &out->library && !is_plain(*text)) {
      settings.refuse("config field " + std::string(name) + " has a space, or a byte that is not printable ASCII");
    }
  }
  if (out->prefix.size() > kMostPrefix)
    settings.refuse("config field prefix has " + std::to_string(out->prefix.size()) + " bytes, at most 128");
  if (out->buffers < out->threads)
    settings.refuse("config field buffers is " + std::to_string(out->buffers) + ", at least one for each of " +
                    std::to_string(out->threads) + " threads");
  const std::string& wrong = settings.finish();
  if (!wrong.empty()) return {QUIRE_INVALID_ARGUMENT, 0, wrong};
  return {};
}

}  // namespace quire::mooncake
