#include "tests/tier/record_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tests/fakes/made_record.h"

namespace quire::test {
namespace {

constexpr int kMostTails = 4;

// What resuming at `boundary` reads of a layer: tokens from here on, and its sinks.
uint64_t tail_begin(const quire_layer& layer, uint64_t boundary) {
  if (layer.kind == QUIRE_LAYER_CHUNKED) return boundary / layer.window * layer.window;
  if (layer.window == 0) return 0;
  return boundary + 1 > layer.window ? boundary + 1 - layer.window : 0;
}

}  // namespace

RecordModel::RecordModel(const Engine& engine, std::vector<quire_layer> layers)
    : engine_(engine), layers_(std::move(layers)), unit_(engine.stats().unit_tokens) {}

void RecordModel::add(const std::vector<uint8_t>& record) {
  quire_record_info info = QUIRE_INIT(quire_record_info);
  ASSERT_EQ(quire_record_read(record.data(), record.size(), &info, nullptr), QUIRE_OK);
  Kind kind;
  uint64_t shape = 0;
  std::memcpy(&shape, &record[MadeRecord::kShapeBytesAt], sizeof shape);
  kind.shape.assign(record.begin() + MadeRecord::kShapeAt, record.begin() + MadeRecord::kShapeAt + static_cast<std::ptrdiff_t>(shape));
  kind.is_state = info.is_state != 0;
  kind.layer = info.first_layer;
  Name prefix;
  std::copy_n(info.prefix, prefix.size(), prefix.begin());
  kinds_.insert(kind);
  records_.emplace(kind.shape, kind.is_state ? 0 : info.first_token, info.end_token, prefix);
}

void RecordModel::add_all(const FakeStore& store) {
  for (const std::string& key : store.keys()) add(*store.get(key));
}

bool RecordModel::has(const Kind& kind, uint64_t first, uint64_t end, const std::vector<Name>& names) const {
  return records_.count({kind.shape, kind.is_state ? 0 : first, end, names[end]}) != 0;
}

bool RecordModel::has_states(uint64_t boundary, const std::vector<Name>& names) const {
  return std::all_of(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return !kind.is_state || has(kind, 0, boundary, names); });
}

RecordModel::Need RecordModel::need(const Kind& kind, uint64_t boundary, const std::vector<Name>& names) const {
  if (kind.is_state) return {has(kind, 0, boundary, names), true};
  Need need{true, false};
  const quire_layer& layer = layers_[kind.layer];
  const uint64_t tail = tail_begin(layer, boundary);
  for (uint64_t first = 0; first < boundary; first += unit_) {
    const uint64_t end = std::min(first + unit_, boundary);
    if (end <= tail && first >= layer.sink_tokens) continue;
    need.any = true;
    need.whole = need.whole && has(kind, first, end, names);
  }
  return need;
}

uint64_t RecordModel::largest_boundary(const Text& text) const {
  std::vector<uint64_t> ends(text.size());
  std::iota(ends.begin(), ends.end(), 0);
  std::vector<Name> names(text.size());
  quire_error err = QUIRE_INIT(quire_error);
  EXPECT_EQ(quire_prefix_digests(engine_.cache(), nullptr, text.data(), text.size(), ends.data(), ends.size(), names[0].data(), &err),
            QUIRE_OK)
      << err.message;
  const bool states = std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.is_state; });
  int tails = 0;
  for (uint64_t boundary = text.size() - 1; boundary > 0; --boundary) {
    const bool inside = boundary % unit_ != 0;
    if (inside && (!states || !has_states(boundary, names) || ++tails > kMostTails)) continue;
    bool whole = true, any = false;
    for (const Kind& kind : kinds_) {
      const Need of_kind = need(kind, boundary, names);
      whole = whole && of_kind.whole;
      any = any || of_kind.any;
    }
    if (whole && any) return boundary;  // where nothing is needed nobody knows that the tokens were computed
  }
  return 0;
}

}  // namespace quire::test
