// What others than steps do with the memory: bytes of loads that come, come late or not at all, and blocks that somebody holds.
#include <algorithm>
#include <set>

#include "tests/model/world.h"

namespace quire::model {

void Memory::bring_tokens(const PlannedStep& load, uint32_t group, uint32_t column, std::span<const quire_load_failure> failures) {
  const PlannedRow& row = load.rows[0];
  const GroupPlan& plan = config_.groups[group];
  const int32_t* ids = load.tables[group].data() + column * load.pitch;
  const uint32_t bt = plan.block_tokens;
  const uint64_t end = table_tokens(plan, row);
  for (uint64_t p = plan.live.fixed && row.position > 0 ? end : row.position; p < end; ++p) {
    const bool left = left_out(plan.live, bt, p / bt, end);
    const std::string where = "load of token " + std::to_string(p) + ", group " + std::to_string(group);
    if (left && p / bt * bt >= row.position) MODEL_REQUIRE(ids[p / bt] == 0, "memory that nobody needs: " + where);
    if (left) continue;
    MODEL_REQUIRE(ids[p / bt] != 0, "no memory: " + where);
    Word* word = cell(group, ids[p / bt]) + p % bt;
    const uint64_t right = stamp(row, plan, group, column, p);
    if (p < load.have[group]) {
      ++reads_;
      MODEL_REQUIRE(word->stamp == right, "what is said to be cached is something else: " + where);
      continue;
    }
    MODEL_REQUIRE(word->writer == 0 || word->writer == writer(row, group), "bytes of somebody else: " + where);
    const bool came = !failed(failures, group, p, p + 1), in_part = mix(right, load.id.value) % 2 == 0;
    if (came || in_part) *word = {came ? right : mix(right, 1), writer(row, group)};
  }
}

void Memory::bring(const PlannedStep& load, std::span<const quire_load_failure> failures) {
  const PlannedRow& row = load.rows[0];
  const uint64_t end = row.position + row.num_tokens;
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    const uint32_t columns = config_.groups[g].ids_per_block;
    for (uint32_t c = 0; c < columns; ++c) {
      if (!config_.groups[g].is_state()) {
        bring_tokens(load, g, c, failures);
        continue;
      }
      const int32_t write = load.state_write(g, columns, load.first_write[g][1] - 1, c);
      MODEL_REQUIRE(write > 0 && write != load.state_read(g, 0, c), "a state is brought over another one");
      const uint64_t right = stamp(row.hashes[end], g, c);
      const bool came = !failed(failures, g, row.position, end), in_part = mix(right, load.id.value) % 2 == 0;
      if (came || in_part) *cell(g, write) = {came ? right : mix(right, 1), writer(row, g)};
    }
  }
}

void Memory::check_slots(Cache& cache, const PlannedStep& load) const {
  const PlannedRow& row = load.rows[0];
  const uint64_t end = row.position + row.num_tokens;
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    const GroupPlan& plan = config_.groups[g];
    if (plan.is_state() || plan.live.fixed) continue;
    std::vector<int64_t> slots(uint64_t{row.num_tokens} * plan.ids_per_block);
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.group = g;
    fill.kind = QUIRE_FILL_SLOTS;
    fill.destination = slots.data();
    fill.capacity = slots.size();
    uint64_t written = 0;
    require_ok(cache.step_fill(load.id, fill, &written), "step_fill");
    MODEL_REQUIRE(written == slots.size(), "slots of a load");
    for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
      for (uint64_t p = row.position; p < end; ++p) {
        const uint64_t block = p / plan.block_tokens;
        const int32_t id = load.tables[g][c * load.pitch + block];
        const bool none = id == 0 || p < load.have[g];
        const int64_t wanted = none ? -1 : int64_t{id} * plan.block_tokens + static_cast<int64_t>(p % plan.block_tokens);
        const int64_t got = slots[c * row.num_tokens + p - row.position];
        MODEL_REQUIRE(got == wanted, "slot of token " + std::to_string(p) + ", group " + std::to_string(g) + ": " + std::to_string(got) +
                                         ", expected " + std::to_string(wanted));
      }
    }
  }
}

void Memory::begin_hold(const Cache& cache, Held* held, std::span<const PlannedStep* const> in_flight) {
  quire_hold_info info{};
  require_ok(cache.hold_info(held->id, &info), "hold_info");
  MODEL_REQUIRE(info.first_token == held->first && info.end_token == held->end, "tokens of a hold");
  held->num_parts = info.num_parts;
  std::set<uint64_t> parts;
  uint64_t num_parts = 0;
  for (uint32_t g = 0; g < config_.groups.size(); ++g) {
    const GroupPlan& plan = config_.groups[g];
    uint64_t count = 0, again = 0;
    require_ok(cache.hold_ids(held->id, g, {}, &count), "hold_ids");
    Held::Piece& piece = held->pieces.emplace_back();
    piece.group = g;
    piece.first_block = plan.is_state() || plan.live.fixed ? 0 : held->first / plan.block_tokens;
    piece.blocks = count / plan.ids_per_block;
    const uint64_t wanted = plan.is_state()            ? 1
                            : plan.live.fixed          ? piece.blocks
                            : held->first >= held->end ? 0
                                                       : ceil_div(held->end, plan.block_tokens) - piece.first_block;
    MODEL_REQUIRE(count == wanted * plan.ids_per_block, "ids of a hold in group " + std::to_string(g) + ": " + std::to_string(count));
    piece.ids.resize(count);
    require_ok(cache.hold_ids(held->id, g, piece.ids, &again), "hold_ids");
    for (const int32_t id : piece.ids) {
      if (id == 0) continue;
      ++num_parts;
      held_[part(g, id)].push_back(held->after);
      parts.insert(part(g, id));
    }
  }
  MODEL_REQUIRE(num_parts == held->num_parts, "parts of a hold: " + std::to_string(held->num_parts));
  for (const PlannedStep* step : in_flight) {
    for (const uint64_t at : step->written) {
      MODEL_REQUIRE(step->id.value <= held->after || parts.count(at) == 0,
                    "step " + std::to_string(step->id.value) + " writes to what is held since step " + std::to_string(held->after) +
                        ": part " + std::to_string(at));
    }
  }
}

void Memory::end_hold(const Held& held) {
  for (const Held::Piece& piece : held.pieces) {
    for (const int32_t id : piece.ids) {
      if (id == 0) continue;
      std::vector<uint64_t>& all = held_[part(piece.group, id)];
      all.erase(std::find(all.begin(), all.end(), held.after));
    }
  }
}

void Memory::check_held(const Held& held, uint64_t tokens, std::span<const uint64_t> hashes) const {
  for (const Held::Piece& piece : held.pieces) {
    const GroupPlan& plan = config_.groups[piece.group];
    const uint64_t bt = plan.is_state() ? 1 : plan.block_tokens;
    for (uint64_t b = piece.first_block; b < piece.first_block + piece.blocks; ++b) {
      for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
        const int32_t id = piece.id(c, b);
        MODEL_REQUIRE((id == 0) == (piece.id(0, b) == 0), "a block that is held in part");
        for (uint64_t t = 0; id != 0 && t < bt && (plan.is_state() || b * bt + t < tokens); ++t) {
          const uint64_t hash = plan.is_state() ? hashes[held.end] : hashes[b * bt + t + 1];
          MODEL_REQUIRE(cell(piece.group, id)[t].stamp == stamp(hash, piece.group, c),
                        "what is held is something else: group " + std::to_string(piece.group) + " column " + std::to_string(c) +
                            " block " + std::to_string(b) + " token " + std::to_string(t) + " id " + std::to_string(id));
        }
      }
    }
  }
}

void Memory::keep(Held* held, uint64_t tokens) const {
  for (const Held::Piece& piece : held->pieces) {
    const GroupPlan& plan = config_.groups[piece.group];
    for (uint64_t b = piece.first_block; b < piece.first_block + piece.blocks; ++b) {
      const uint64_t begin = b * plan.block_tokens;
      const uint64_t words = plan.is_state() ? 1 : tokens > begin ? std::min<uint64_t>(tokens - begin, plan.block_tokens) : 0;
      for (uint32_t c = 0; c < plan.ids_per_block; ++c) {
        const int32_t id = piece.id(c, b);
        if (id == 0 || words == 0) continue;
        const Word* first = cell(piece.group, id);
        held->kept.push_back({piece.group, id, {first, first + words}});
      }
    }
  }
}

void Memory::check_kept(const Held& held) const {
  for (const Held::Kept& kept : held.kept) {
    const Word* now = cell(kept.group, kept.id);
    for (size_t i = 0; i < kept.words.size(); ++i) {
      MODEL_REQUIRE(now[i].stamp == kept.words[i].stamp && now[i].writer == kept.words[i].writer,
                    "what is held has changed: group " + std::to_string(kept.group) + " id " + std::to_string(kept.id) + " row " +
                        std::to_string(i) + " of hold " + std::to_string(held.id));
    }
  }
}

void Memory::write_late(const PlannedStep& load, uint32_t group, uint32_t column, uint64_t token, uint64_t stamp) {
  const GroupPlan& plan = config_.groups[group];
  const PlannedRow& row = load.rows[0];
  if (plan.is_state()) {
    *cell(group, load.state_write(group, plan.ids_per_block, load.first_write[group][1] - 1, column)) = {stamp, writer(row, group)};
    return;
  }
  const int32_t id = load.tables[group][column * load.pitch + token / plan.block_tokens];
  cell(group, id)[token % plan.block_tokens] = {stamp, writer(row, group)};
}

}  // namespace quire::model
