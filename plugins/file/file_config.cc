#include "plugins/file/file_config.h"

#include "plugins/common/settings.h"
#include "plugins/file/file_parts.h"

namespace quire::file {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 60;
constexpr uint64_t kDepth = 32;
constexpr uint64_t kMostDepth = 1024;
constexpr size_t kMostPath = 4096 - 256;  // a key's name follows

}  // namespace

Outcome read_config(std::string_view json, Config* out) {
  plugins::Settings settings(json);
  out->directory = settings.text("directory", "");
  out->read_only = settings.flag("read_only", false);
  out->quota = settings.size("bytes", kPage, kMostBytes, 0);
  out->depth = static_cast<uint32_t>(settings.number("depth", 1, kMostDepth, kDepth));
  out->direct = settings.flag("direct", true);
  out->sync = settings.flag("sync", true);
  if (settings.has("directory") && (out->directory.empty() || out->directory[0] != '/' || out->directory.size() > kMostPath ||
                                    out->directory.find('\0') != std::string::npos)) {
    settings.refuse("config field \"directory\" is no absolute path of at most " + std::to_string(kMostPath) + " bytes");
  }
  settings.require("directory", "the absolute path of the store");
  if (!out->read_only) settings.require("bytes", "what the objects may take of the disk");
  const std::string& wrong = settings.finish();
  if (!wrong.empty()) return {QUIRE_INVALID_ARGUMENT, 0, wrong};
  return {};
}

}  // namespace quire::file
