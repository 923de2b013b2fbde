// What the connector `file` keeps in a directory, looked at by somebody else: nothing is changed,
// not even the time at which a file was last read, and nothing that is in there is believed.
#pragma once

#include <quire/tier.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quire::tools {

enum class ObjectState { kWhole, kDamaged, kUnreadable, kOtherVersion, kOtherObject };

struct RecordFile {
  std::string path;  // within the directory
  ObjectState state = ObjectState::kWhole;
  std::string why;  // a sentence where it is not whole
  uint64_t bytes = 0;
  uint64_t disk_bytes = 0;
  int64_t used_ns = 0;   // since 1970: when it was last used
  int64_t lease_ns = 0;  // until when it is to stay; in the past: no lease
  bool has_header = false;
  quire_record_info info{};  // if so
};

// What no connector wrote.
struct ForeignFile {
  std::string path;
  const char* kind = "";
};

struct RecordFiles {
  std::vector<RecordFile> objects;  // in the order of their names
  std::vector<ForeignFile> foreign;
  uint64_t num_unfinished = 0;  // being written, or left by a process that died
  uint64_t num_gone = 0;        // were listed, and removed before they were read
  uint64_t checked_bytes = 0;
  double seconds = 0;
};

// checks: compare all bytes with their checksums, too. Throws client::Failure where the directory
// cannot be read.
RecordFiles read_record_files(const std::string& directory, bool checks);

// Of the first `digits` digits.
std::string base16(const uint8_t* bytes, size_t digits);

}  // namespace quire::tools
