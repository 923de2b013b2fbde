// foreign_json.h: JSON of foreign files, parsed within limits: a few bytes of text must not become
// many of memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace lm {

struct JsonLimits {
  int depth = 32;
  uint64_t values = 4'000'000;  // separated by commas
};

// An object; anything else is an error that begins with `name`.
nlohmann::json parse_object(std::string_view text, const std::string& name,
                            const JsonLimits& limits = {});
// A whole file of at most so many bytes.
std::string read_text(const std::filesystem::path& path, uint64_t most);

}  // namespace lm
