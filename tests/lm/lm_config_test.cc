// config.json as Python writes it: numbers without an end.
#include <gtest/gtest.h>

#include "lm_error.h"
#include "mamba.h"

namespace lm {
namespace {

std::string mamba_config(const std::string& limit) {
  return R"({"hidden_size": 8, "mamba_n_heads": 4, "mamba_d_head": 4, "mamba_d_state": 2, "name": "\"Infinity\"",)"
         R"( "time_step_limit": )" +
         limit + "}";
}

TEST(LmConfig, LimitsWithoutAnEnd) {
  for (const char* limit : {"[0.5, Infinity]", R"([0.5, {"__float__": "Infinity"}])", "[0.5, 3e38]"}) {
    const ModelConfig config = ModelConfig::parse(mamba_config(limit), "config.json");
    const Mamba2Shape shape = Mamba2Shape::of(config);
    EXPECT_EQ(shape.dt_min, 0.5F) << limit;
    EXPECT_EQ(shape.dt_max, 3e38F) << limit;
    EXPECT_EQ(config.text("name"), "\"Infinity\"");
    EXPECT_EQ(ModelConfig::parse(config.dump(), "copy").text("name"), "\"Infinity\"");
  }
  const ModelConfig negative = ModelConfig::parse(R"({"a": -Infinity, "b": {"__float__": "-Infinity"}})", "config.json");
  EXPECT_EQ(negative.number("a"), -3e38F);
  EXPECT_EQ(negative.number("b"), -3e38F);
}

TEST(LmConfig, NoNumberIsAbsent) {
  const ModelConfig config = ModelConfig::parse(R"({"a": NaN, "b": {"__float__": "NaN"}, "c": {"__float__": "four"}})", "config.json");
  EXPECT_FALSE(config.has("a"));
  EXPECT_FALSE(config.has("b"));
  EXPECT_THROW(config.number("c"), Error);
}

TEST(LmConfig, DeepBrackets) {
  const std::string deep = R"({"a": )" + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_THROW(ModelConfig::parse(deep, "config.json"), Error);
}

TEST(LmConfig, LimitsThatAreNoPair) {
  for (const char* limit : {"[0.5]", "\"all\"", "[0, NaN]"})
    EXPECT_THROW(Mamba2Shape::of(ModelConfig::parse(mamba_config(limit), "config.json")), Error) << limit;
}

}  // namespace
}  // namespace lm
