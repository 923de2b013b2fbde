// Views and ids that a peer sent: runs stay inside what both views reach, or the request is refused with a sentence.
#include <algorithm>
#include <array>

#include "core/layout/codec.h"
#include "core/layout/layout.h"
#include "core/layout/runs.h"
#include "core/model/dtype.h"
#include "tests/fuzz/fuzz.h"

namespace quire::fuzz {
namespace {

constexpr unsigned __int128 kMaxEnd = static_cast<unsigned __int128>(1) << 63;
constexpr std::array<const char*, 8> kOrders{"BPJKTHD", "BJPKHTD", "BPJTHKD", "BJTPKHD", "KBJTHD", "BHJKTD", "BTJHKD", "BJTHD"};

// A view of a layout that exists, before somebody changes it.
quire_kv_view honest(Input* in, uint32_t codec) {
  MemberShape member;
  member.num_sides = 1 + in->below(2);
  member.num_heads = 1 + in->below(4);
  member.width[0] = member.width[1] = 16;
  member.rows = 16 * (1 + in->below(2));
  member.tokens_per_row = 1 + in->below(2);
  member.dtype = kBFloat16;
  member.codec = codec;
  for (uint32_t side = 0; side < 2; ++side) {
    member.codec_params.data_bytes[side] = 16;
    member.codec_params.scale_bytes[side] = 4;
  }
  PoolShape pool;
  pool.num_pages = 1 + in->below(5);
  pool.groups.push_back({*Order::parse(kOrders[in->below(kOrders.size())]), 1 + in->below(3), 1 + in->below(3), {member}});
  auto layout = lay_out(pool);
  quire_kv_view view{};
  if (layout.ok()) view = layout->groups[0].members[0].kv;
  view.struct_size = sizeof view;
  view.model_heads = 4;
  view.first_head = in->below(2);
  return view;
}

template <typename View>
void change(Input* in, View* view) {
  for (uint32_t n = in->below(4); n-- > 0;) {
    const size_t at = in->take<uint8_t>() % (sizeof *view / 4) * 4;
    const uint32_t value = in->take<uint32_t>();
    std::memcpy(reinterpret_cast<unsigned char*>(view) + at, &value, sizeof value);
  }
}

// One behind the last byte that any address of a side can have.
unsigned __int128 reach_of(const quire_kv_view& view) {
  unsigned __int128 most = 0;
  for (uint32_t side = 0; side < view.num_sides; ++side) {
    const auto step = [](int64_t stride, uint64_t extent) { return static_cast<unsigned __int128>(stride) * (extent - 1); };
    const unsigned __int128 cell = cell_bytes(view.codec, view.codec_params, view.dtype, view.head_dim[side], side);
    most = std::max(most, static_cast<unsigned __int128>(view.offset[side]) + step(view.stride_page[side], view.num_pages) +
                              step(view.stride_block[side], view.blocks_per_page) + step(view.stride_token[side], view.block_tokens) +
                              step(view.stride_head[side], view.num_heads) + step(view.stride_dim[side], view.head_dim[side]) +
                              cell * view.block_tokens * view.num_heads);
  }
  return most;
}

void check_runs(const std::vector<quire_run>& runs, unsigned __int128 from, unsigned __int128 to) {
  for (const quire_run& run : runs) {
    const auto last = [&run](uint64_t offset, int64_t stride) {
      return static_cast<unsigned __int128>(offset) + static_cast<unsigned __int128>(stride) * (run.count - 1) + run.bytes;
    };
    require(run.count != 0 && run.bytes != 0, "runs are not empty");
    require(last(run.from_offset, run.from_stride) <= from && last(run.to_offset, run.to_stride) <= to, "runs stay inside");
  }
}

void kv(Input* in) {
  const uint32_t codec = in->below(7);
  quire_kv_view from = honest(in, codec);
  quire_kv_view to = honest(in, codec);
  change(in, &from);
  change(in, &to);
  int32_t ids[2][8];
  for (auto& end : ids) {
    for (int32_t& id : end) id = in->take<int8_t>();
  }
  const uint64_t begin = in->take<uint8_t>();
  const uint64_t end = begin + in->take<uint8_t>();
  std::vector<quire_run> runs;
  const Status status = append_runs({&from, ids[0], "from"}, {&to, ids[1], "to"}, begin, end, &runs);
  if (!status.ok()) return require(!status.message().empty(), "a refusal has a sentence");
  check_runs(runs, reach_of(from), reach_of(to));
  for (const quire_kv_field& field : fields_of(from)) require(field.num_items != 0 && field.tile_tokens != 0, "fields have items");
}

void state(Input* in) {
  quire_state_view views[2] = {};
  for (quire_state_view& view : views) {
    view.dtype = kBFloat16;
    view.ndim = 2;
    view.shape[0] = 1 + in->below(9);
    view.shape[1] = 1 + in->below(9);
    view.stride[1] = 2;
    view.stride[0] = static_cast<int64_t>(2 * view.shape[1]);
    view.stride_page = 1000;
    view.stride_part = 500;
    view.parts_per_page = 2;
    view.num_pages = 3;
    view.shard_dim = in->below(3);
    view.num_ranks = 1 + in->below(3);
    view.rank = in->below(3);
    change(in, &view);
  }
  std::vector<quire_run> runs;
  const Status status = append_state_runs(views[0], in->take<int8_t>(), views[1], in->take<int8_t>(), &runs);
  if (!status.ok()) return require(!status.message().empty(), "a refusal has a sentence");
  check_runs(runs, kMaxEnd, kMaxEnd);
}

}  // namespace
}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  quire::fuzz::Input in(data, size);
  if (in.below(4) == 0) {
    quire::fuzz::state(&in);
  } else {
    quire::fuzz::kv(&in);
  }
  return 0;
}
