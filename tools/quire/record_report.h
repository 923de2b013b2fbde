// What was found in the directory of a tier, as JSON and as text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "quire/record_files.h"

namespace quire::tools {

struct RecordReport {
  std::string directory;
  RecordFiles files;
  bool checked = true;
  bool lists = false;  // also one entry for each object
  int64_t now_ns = 0;  // since 1970
};

nlohmann::ordered_json record_json(const RecordReport& report);
void print_records(const RecordReport& report);

// Objects that a fetch would not get: damaged, or not readable.
uint64_t count_bad(const RecordFiles& files);

}  // namespace quire::tools
