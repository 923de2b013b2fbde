#include "view.h"

#include <algorithm>

namespace fleet {

void View::take(uint64_t number, const std::string& payload) {
  if (number < next_) return;
  early_.emplace(number, nlohmann::json::from_msgpack(payload.begin(), payload.end()));
  use_early();
}

void View::use_early() {
  while (!early_.empty()) {
    const auto first = early_.begin();
    if (first->first != next_ && !begins_anew(first->second)) return;
    index_.apply(first->second);
    ++batches_;
    next_ = first->first + 1;
    early_.erase(first);
  }
}

void View::expect(uint64_t batches) { expected_ = std::max(expected_, batches); }

void View::give_up() {
  if (!has_gap()) return;
  index_.clear();
  ++given_up_;
  next_ = early_.empty() ? expected_ : early_.begin()->first;
  use_early();
}

void View::reset() {
  index_.clear();
  early_.clear();
  next_ = expected_ = 0;
}

}  // namespace fleet
