// Whose ops know the rows of a plan's token caches. Drivers decide by themselves (drivers/common/check.cc); tests/unit/memory compares.
#include <array>
#include <iterator>

#include "core/model/dtype.h"
#include "core/plan/plan_input.h"

namespace quire {
namespace {

constexpr uint32_t kWidest = 1024;   // elements of a head
constexpr uint32_t kScaleStep = 16;  // elements that share a scale are a multiple of this

enum class Knowing { kAll, kCpu, kNone };

bool is_plain(quire_dtype t) { return same_dtype(t, kFloat32) || same_dtype(t, kFloat16) || same_dtype(t, kBFloat16); }

bool is_eight_bits(quire_dtype t) {
  if (t.bits != 8 || t.lanes > 1) return false;
  return t.code == QUIRE_DTYPE_INT || t.code == QUIRE_DTYPE_FLOAT8_E4M3FN || t.code == QUIRE_DTYPE_FLOAT8_E5M2;
}

bool is_four_bits(quire_dtype t) {
  return t.bits == 4 && t.lanes <= 1 && (t.code == QUIRE_DTYPE_INT || t.code == QUIRE_DTYPE_FLOAT4_E2M1FN);
}

bool knows_scales(const quire_kv_view& kv, quire_dtype data) {
  const quire_codec_params& params = kv.codec_params;
  const quire_dtype scale = params.scale_dtype;
  if (kv.num_sides == 2 && (params.scale_bytes[0] == 0) != (params.scale_bytes[1] == 0)) return false;
  if (params.scale_elements % kScaleStep != 0 || params.scale_elements > kWidest) return false;
  if (params.scale_bytes[0] == 0 || same_dtype(scale, kFloat32)) return true;
  if (scale.code == QUIRE_DTYPE_FLOAT8_E4M3FN) return data.code == QUIRE_DTYPE_FLOAT4_E2M1FN;
  return scale.code == QUIRE_DTYPE_FLOAT8_E8M0FNU && data.bits == 8 && data.code != QUIRE_DTYPE_INT;
}

Knowing who_knows(const quire_kv_view& kv) {
  for (uint32_t side = 0; side < kv.num_sides; ++side) {
    if (kv.head_dim[side] > kWidest) return Knowing::kNone;
  }
  if (kv.codec == QUIRE_CODEC_STRIDED) return is_plain(kv.dtype) || is_eight_bits(kv.dtype) ? Knowing::kAll : Knowing::kNone;
  if (kv.codec != QUIRE_CODEC_RECORD && kv.codec != QUIRE_CODEC_BLOCK_SPLIT) return Knowing::kNone;
  const quire_codec_params& params = kv.codec_params;
  const quire_dtype data = is_unset(params.data_dtype) ? kv.dtype : params.data_dtype;
  const bool known = (is_eight_bits(data) || is_four_bits(data)) && knows_scales(kv, data);
  for (uint32_t side = 0; side < kv.num_sides; ++side) {
    const uint64_t tail = params.tail_bytes[side] == 0 ? 0 : params.tail_bytes[side] / element_bytes(params.tail_dtype);
    if ((kv.head_dim[side] - tail) * data.bits % 8 != 0) return Knowing::kNone;
  }
  const bool tail = (params.tail_bytes[0] | params.tail_bytes[1]) == 0 || is_plain(params.tail_dtype);
  return known && tail ? Knowing::kCpu : Knowing::kNone;
}

// By codec.
constexpr const char* kRowsOf[] = {"plain rows",   "records",  "rows of split blocks", "tiled rows", "shuffled rows",
                                   "columns of K", "AMX tiles"};

}  // namespace

std::vector<std::string> notes_of_ops(const Config& config) {
  struct Found {
    uint32_t layers = 0;
    uint32_t first = 0;
    int32_t codec = 0;
  };
  std::array<Found, 3> found{};
  for (size_t p = 0; p < config.places.size(); ++p) {
    for (const ShardPlan& shard : config.shards) {
      const quire_kv_view& kv = shard.views[p].kv;
      if (kv.num_sides == 0) continue;
      Found& of = found[static_cast<size_t>(who_knows(kv))];
      if (of.layers++ == 0) of.first = config.places[p].layer, of.codec = kv.codec;
      break;
    }
  }
  std::vector<std::string> out;
  const auto note = [&out](const Found& of, const char* whose) {
    if (of.layers == 0) return;
    const std::string others = of.layers == 1 ? "" : " and " + std::to_string(of.layers - 1) + " more";
    const bool named = of.codec >= 0 && static_cast<size_t>(of.codec) < std::size(kRowsOf);
    out.push_back(std::string(named ? kRowsOf[of.codec] : "rows") + " of layer " + std::to_string(of.first) + others + ": " + whose);
  };
  note(found[static_cast<size_t>(Knowing::kCpu)], "of quire's drivers only the CPU driver has ops for them");
  note(found[static_cast<size_t>(Knowing::kNone)], "no driver of quire has ops for them; it sizes and moves them");
  return out;
}

}  // namespace quire
