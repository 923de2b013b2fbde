// The option that replaces the type of recurrent states.
#include "tests/unit/plan/plans.h"

namespace quire {
namespace {

using plans::Options;

Options with_states(const char* policy, quire_dtype dtype) {
  Options options(policy, plans::kGiB);
  options.raw.state_dtype = dtype;
  return options;
}

// Types of the state's tensors, as the plan stores them.
std::vector<uint32_t> bits_of(const Config& config, uint32_t layer) {
  const CachePlace* place = config.find(layer, 0);
  std::vector<uint32_t> bits;
  for (const quire_state_view& view : config.shards[0].views[static_cast<size_t>(place - config.places.data())].states) {
    bits.push_back(view.dtype.bits);
  }
  return bits;
}

TEST(StateDtype, ReplacesStatesAndLeavesConvolutions) {
  const quire_layer tokens = plans::attention(4, 64);
  for (const char* policy : {"vllm", "auto"}) {
    for (const quire_state_kind kind : {QUIRE_STATE_MAMBA2, QUIRE_STATE_GDN, QUIRE_STATE_KDA}) {
      quire_layer layer = plans::state(3, 256, 8, 64, 64);
      layer.state[0].dtype = kFloat16;
      layer.state_kind = kind;
      const Model model = plans::mixed(tokens, 2, layer, 2);
      const uint32_t first = model.caches()[0].desc.kind == QUIRE_LAYER_STATE ? 0 : 1;
      const auto before = plans::planned(model, Options(policy, plans::kGiB));
      EXPECT_EQ(bits_of(*before, first), (std::vector<uint32_t>{16, 32})) << policy << kind;
      const auto config = plans::planned(model, with_states(policy, kBFloat16));
      EXPECT_EQ(bits_of(*config, first), (std::vector<uint32_t>{16, 16})) << policy << kind;
      const auto payload = [&](const Config& of) { return of.groups[of.find(first, 0)->group.value].payload_bytes_per_block; };
      EXPECT_LT(payload(*config), payload(*before)) << policy << kind;
      EXPECT_EQ(bits_of(*plans::planned(model, with_states(policy, {QUIRE_DTYPE_FLOAT8_E4M3FN, 8, 1})), first),
                (std::vector<uint32_t>{16, 8}));
    }
  }
}

TEST(StateDtype, GenericStatesAreAllReplaced) {
  const quire_layer tokens = plans::attention(4, 64);
  quire_layer layer = plans::state(3, 256, 8, 64, 64);
  layer.state[0].dtype = kFloat32;
  const Model model = plans::mixed(tokens, 2, layer, 2);
  const uint32_t first = model.caches()[0].desc.kind == QUIRE_LAYER_STATE ? 0 : 1;
  EXPECT_EQ(bits_of(*plans::planned(model, with_states("vllm", kBFloat16)), first), (std::vector<uint32_t>{16, 16}));
}

TEST(StateDtype, ShortConvolutionsStayAsTheyAre) {
  const quire_layer tokens = plans::attention(4, 64);
  quire_layer layer = plans::state(3, 256, 0, 0, 0);
  layer.state_kind = QUIRE_STATE_SHORT_CONV;
  const Model model = plans::mixed(tokens, 2, layer, 2);
  const uint32_t first = model.caches()[0].desc.kind == QUIRE_LAYER_STATE ? 0 : 1;
  EXPECT_EQ(bits_of(*plans::planned(model, with_states("vllm", kFloat32)), first), (std::vector<uint32_t>{16}));
}

TEST(StateDtype, UnknownTypesAreRefused) {
  const Model model = plans::mixed(plans::attention(4, 64), 2, plans::state(3, 256, 8, 64, 64), 2);
  const Status refused = plans::refused(model, with_states("vllm", {99, 16, 1}));
  EXPECT_EQ(refused.code(), QUIRE_INVALID_ARGUMENT);
  EXPECT_NE(refused.message().find("state_dtype"), std::string::npos) << refused.message();
}

}  // namespace
}  // namespace quire
