// Steps as bytes. The first byte says whether the rest is taken as it is, or sealed first as whoever makes bytes can. What is taken in
// answers every array inside its bounds; what is not has a sentence.
#include <array>
#include <string>
#include <vector>

#include "core/step/follower.h"
#include "core/step/step_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/model/world.h"

namespace quire::fuzz {
namespace {

struct Rig {
  std::unique_ptr<Follower> follower;
  uint64_t digest = 0;

  Rig() {
    const std::vector<model::GroupSketch> groups{
        {LiveRange{}, 4, 1, 1}, {LiveRange{.window = 10}, 4, 2, 2}, {LiveRange{.state = true}, 8, 3, 3}};
    auto config = model::make_config(groups, 64, 128);
    digest = plan_digest(*config);
    quire_cache_options options{};
    options.struct_size = sizeof options;
    options.max_sequences = 8;
    options.max_tokens_per_step = 64;
    options.num_state_branches = 2;
    follower = std::move(Follower::create(config, options).value());
  }

  void fill(StepId step, quire_fill_kind kind, uint32_t group) const {
    quire_fill fill{};
    fill.struct_size = sizeof fill;
    fill.kind = kind;
    fill.group = group;
    fill.pitch = kind == QUIRE_FILL_TABLE || kind == QUIRE_FILL_RAW_TABLE ? 40 : 0;
    uint64_t needed = 0;
    const Status refused = follower->step_fill(step, fill, &needed);
    if (needed == 0) return;  // not of this group
    require(refused.code() == QUIRE_OUT_OF_RANGE || refused.code() == QUIRE_INVALID_ARGUMENT, "an array without room is refused");
    std::vector<int64_t> out(kind == QUIRE_FILL_SLOTS ? needed : (needed + 1) / 2);
    fill.destination = out.data();
    fill.capacity = needed;
    require(follower->step_fill(step, fill, &needed).ok(), "an array with room is written");
  }

  void batch(StepId step) const {
    const PutBatch count = [](void* user, uint32_t, const quire_batch&) { ++*static_cast<uint32_t*>(user); };
    quire_batch_options options{};
    options.struct_size = sizeof options;
    uint64_t bytes = 0;
    uint32_t groups = 0;
    require(follower->step_batch(step, options, count, &groups, &bytes).ok() && groups == 0, "a batch has a size");
    struct alignas(16) Line {
      char bytes[16];
    };
    std::vector<Line> memory(bytes / sizeof(Line));
    options.memory = memory.data();
    options.bytes = bytes;
    require(follower->step_batch(step, options, count, &groups, &bytes).ok() && groups == 3, "a batch with room is written");
  }
};

void take(const Rig& rig, const std::vector<uint8_t>& bytes) {
  StepId step;
  const Status status = rig.follower->step_import(bytes, &step);
  if (!status.ok()) return require(!status.message().empty() && step.value == 0, "a refusal has a sentence");
  for (uint32_t group = 0; group < 3; ++group) {
    for (quire_fill_kind kind = QUIRE_FILL_TABLE; kind <= QUIRE_FILL_UPDATE_INDICES; ++kind) rig.fill(step, kind, group);
  }
  rig.batch(step);
  const auto copies = rig.follower->step_copies(step);
  for (const quire_copy& c : copies.value()) {
    require(c.group < 3 && c.source >= 0 && c.destination >= 0, "copies are of the plan");
  }
}

}  // namespace
}  // namespace quire::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const quire::fuzz::Rig rig;
  quire::fuzz::Input in(data, size);
  const bool sealed = in.below(2) == 1;
  std::vector<uint8_t> bytes(in.data(), in.data() + in.size());
  if (sealed) {
    std::vector<uint8_t> whole(quire::kStepHeaderBytes);
    quire::ByteWriter writer(whole);
    writer.fixed(quire::kStepMagic, 4);
    writer.fixed(quire::kStepVersion, 4);
    writer.fixed(0, 8);
    writer.fixed(0, 8);
    writer.fixed(rig.digest, 8);
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    quire::seal(whole);
    bytes = std::move(whole);
  }
  quire::fuzz::take(rig, bytes);
  return 0;
}
