// Whether stores make sense now. A full disk and a refusal to write are not asked again and again.
#pragma once

#include <quire/connector.h>

#include <algorithm>
#include <cstdint>

namespace quire::file {

class Condition {
 public:
  // Before a store writes anything. OK, RESOURCE_EXHAUSTED or PERMISSION_DENIED. While the disk was
  // full, one store at a time tries again.
  quire_code admit(int64_t now) {
    if (trouble_ == Trouble::kNone) return QUIRE_OK;
    if (now < until_ && trouble_ == Trouble::kRefused) return QUIRE_PERMISSION_DENIED;
    if (now < until_) return QUIRE_RESOURCE_EXHAUSTED;
    until_ = now + pause_;
    is_trying_ = true;
    return QUIRE_OK;
  }
  // The disk is full: the pause before the next try is 1 s, then twice as long each time, at most a
  // minute.
  void no_space(int64_t now) {
    if (trouble_ == Trouble::kNoSpace && !is_trying_) return;  // of stores that had begun before
    pause_ = trouble_ == Trouble::kNoSpace ? std::min(2 * pause_, kLongPause) : kShortPause;
    begin(Trouble::kNoSpace, now);
  }
  void refused(int64_t now) {
    pause_ = kLongPause;
    begin(Trouble::kRefused, now);
  }
  void no_room() { has_no_room_ = true; }
  void has_room() { has_no_room_ = false; }
  void stored() {
    has_no_room_ = false;
    if (is_trying_) reset();
  }
  void reset() {
    trouble_ = Trouble::kNone;
    is_trying_ = false;
  }

  bool lacks_room() const { return has_no_room_; }
  quire_connector_state state(int64_t now) const {
    if (trouble_ == Trouble::kRefused) return QUIRE_CONNECTOR_READ_ONLY;
    const bool is_full = has_no_room_ || (trouble_ == Trouble::kNoSpace && now < until_);
    return is_full ? QUIRE_CONNECTOR_FULL : QUIRE_CONNECTOR_UP;
  }
  bool is_refused(int64_t now) const { return trouble_ == Trouble::kRefused && now >= until_; }

 private:
  static constexpr int64_t kShortPause = 1'000'000'000;
  static constexpr int64_t kLongPause = 60 * kShortPause;
  enum class Trouble { kNone, kNoSpace, kRefused };
  void begin(Trouble trouble, int64_t now) {
    trouble_ = trouble;
    until_ = now + pause_;
    is_trying_ = false;
  }

  Trouble trouble_ = Trouble::kNone;
  bool is_trying_ = false;
  bool has_no_room_ = false;
  int64_t pause_ = 0;
  int64_t until_ = 0;
};

}  // namespace quire::file
