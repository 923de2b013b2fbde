// By whose rules layers are grouped and sized.
#pragma once

namespace quire {

// kUpstream also reproduces what looks accidental in the published algorithm: told windows that
// differ are refused instead of parted, padded pages cannot be scaled, sinks and prefix windows are
// lost when they meet full layers, and the null block is not counted.
enum class Rules { kRight, kUpstream };

}  // namespace quire
