// Why something could not be done.
#pragma once

#include <quire/base.h>

#include <cstring>
#include <string>

namespace quire::file {

struct Outcome {
  quire_code code = QUIRE_OK;
  int native = 0;    // errno; 0 = none
  std::string text;  // empty if code is OK
  bool ok() const { return code == QUIRE_OK; }
};

inline std::string error_text(int error) {
  const char* const text = strerrordesc_np(error);
  return text != nullptr ? text : "error " + std::to_string(error);
}

}  // namespace quire::file
