// A kind of layer is two functions: live(p), the earlier tokens that must be resident to compute token p, and stored(p, n), which of the
// tokens [p, p + n) get memory. Allocation, release, prefix hits, clipping and rollback limits are derived from them; there is no class
// per kind. The tail never moves back: tail_begin(p) <= tail_begin(p + 1).
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire {

struct LiveRange {
  uint64_t sink = 0;      // tokens [0, sink) stay live for ever
  uint64_t window = 0;    // 0 = everything; otherwise the last `window` tokens, the one being computed included
  uint64_t chunk = 0;     // 0 = none; otherwise live since the last multiple of chunk
  bool state = false;     // only the boundary right before p: a recurrent state
  bool fixed = false;     // cross attention: the encoder's tokens, once; nothing grows
  uint64_t retained = 0;  // windows: tokens that stay before the tail though nobody resumes by them, for draft modules behind each other

  friend bool operator==(const LiveRange&, const LiveRange&) = default;

  // First token of the live tail when token p is computed.
  constexpr uint64_t tail_begin(uint64_t p) const {
    if (state) return p == 0 ? 0 : p - 1;
    if (chunk != 0) return p / chunk * chunk;
    if (window != 0) return p + 1 > window ? p + 1 - window : 0;
    return 0;
  }
  // First token that stays resident behind token p; tokens before the tail are not needed to resume.
  constexpr uint64_t kept_begin(uint64_t p) const { return tail_begin(p) - std::min(tail_begin(p), retained); }
  // The first token behind which no token before `begin` stays, but for the live head: kept_begin(p) >= begin; begin > 0.
  constexpr uint64_t kept_from(uint64_t begin) const {
    const uint64_t tail = begin + retained;
    if (chunk != 0) return (tail + chunk - 1) / chunk * chunk;
    return window != 0 ? tail + window - 1 : UINT64_MAX;
  }
  // Most tokens that stay behind any token p, p - kept_begin(p), but for the live head; UINT64_MAX where that grows with p.
  constexpr uint64_t longest_tail() const {
    if (state) return 1;
    if (chunk != 0) return chunk - 1 + retained;
    return window != 0 ? window - 1 + retained : UINT64_MAX;
  }
  // End of the live head; [0, sink_end) and [tail_begin, p) together are live(p).
  constexpr uint64_t sink_end(uint64_t p) const { return std::min(sink, p); }
  // Everything is live for ever: hits are downward closed and nothing is ever released.
  constexpr bool everything() const { return !state && !fixed && chunk == 0 && window == 0; }
};

}  // namespace quire
