// Status and Result: how every room of core reports failure. OK allocates nothing; a failure carries a code of the ABI and one line
// that names argument, value and limit.
#pragma once

#include <quire/base.h>

#include <cstdarg>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quire {

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  // A failure is never OK: nobody may take it for success, so QUIRE_OK becomes QUIRE_INTERNAL.
  // Control characters of the message are escaped: names and texts from outside must not steer a terminal or forge lines of a log.
  Status(quire_code code, const std::string& message);

  bool ok() const { return state_ == nullptr; }
  quire_code code() const { return state_ ? state_->code : QUIRE_OK; }
  const std::string& message() const;
  int32_t native_code() const { return state_ ? state_->native_code : 0; }
  int32_t native_domain() const { return state_ ? state_->native_domain : 0; }
  // The root number of another system (errno, CUresult, ...), kept beside the code.
  Status with_native(int32_t domain, int32_t code) &&;
  // Copies code and message into the caller's struct; `error` may be null. Returns the code.
  quire_code write_to(quire_error* error, const char* source) const;

 private:
  struct State {
    quire_code code;
    std::string message;
    int32_t native_code;
    int32_t native_domain;
  };
  std::unique_ptr<State> state_;
};

// The text with control characters (C0, DEL; C1 in UTF-8 or as a stray byte) as \n, \t or \xNN.
std::string printable(std::string_view text);

// printf-style constructors for failures.
[[gnu::format(printf, 2, 3)]] Status fail(quire_code code, const char* format, ...);
[[gnu::format(printf, 1, 2)]] Status invalid(const char* format, ...);

// The status of a result without a value: an OK one becomes a failure (INTERNAL), or callers would see neither.
Status failure_of(Status status);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T v) : value_(std::move(v)) {}                              // NOLINT(google-explicit-constructor): a value is a result
  Result(Status status) : status_(failure_of(std::move(status))) {}  // NOLINT(google-explicit-constructor): a failure is a result
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  Status take_status() { return std::move(status_); }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace quire

// Returns from the enclosing function when the expression is a failed Status.
#define QUIRE_RETURN_IF_ERROR(expr)                \
  do {                                             \
    ::quire::Status quire_status_ = (expr);        \
    if (!quire_status_.ok()) return quire_status_; \
  } while (false)
