// lm_error.h: what this engine throws. quire::Exception is thrown by the calls of quire.
#pragma once

#include <stdexcept>
#include <string>

namespace lm {

// Bad input or a bad request: one sentence for the user, which names the thing and the limit.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace lm
