// Bad input of samples/lm: every kind is a clear error before anything large is allocated.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "family.h"
#include "lm_error.h"

namespace lm {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A copy of the recorded llama that a test damages.
class BadInput : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const char* file : {"config.json", "model.safetensors"}) fs::copy(fs::path(LM_DATA) / "llama" / file, folder_ / file);
    bytes_ = read_file(folder_ / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), sizeof length);
    header_ = json::parse(bytes_.substr(8, length));
    data_ = bytes_.substr(8 + length);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& bytes, const char* file = "model.safetensors") const {
    std::ofstream(folder_ / file, std::ios::binary) << bytes;
  }
  std::string with_header(const std::string& text) const {
    const uint64_t length = text.size();
    return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text + data_;
  }
  void write_header() const { write(with_header(header_.dump())); }
  void change_config(const std::string& field, const json& value) const {
    json config = json::parse(read_file(folder_ / "config.json"));
    config[field] = value;
    std::ofstream(folder_ / "config.json") << config.dump();
  }
  // What is said of the folder; empty if it is accepted.
  std::string said() const {
    try {
      LoadedModel::open(folder_);
    } catch (const Error& failure) {
      return failure.what();
    }
    return "";
  }
  void expect(std::initializer_list<const char*> parts) const {
    const std::string text = said();
    for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }

  fs::path folder_ = fs::path(testing::TempDir()) / "lm_bad_input";
  std::string bytes_;
  json header_;
  std::string data_;
  const std::string name_ = "model.layers.1.mlp.down_proj.weight";
};

TEST_F(BadInput, TheCopyIsGood) { EXPECT_EQ(said(), ""); }

TEST_F(BadInput, FilesThatAreAbsent) {
  fs::remove(folder_ / "model.safetensors");
  expect({"neither model.safetensors nor model.safetensors.index.json"});
  fs::remove(folder_ / "config.json");
  expect({"config.json", "No such file"});
}

TEST_F(BadInput, ShortAndForeignFiles) {
  write("");
  expect({"0 bytes, too few for a header"});
  write(bytes_.substr(0, 7));
  expect({"7 bytes, too few for a header"});
  write(bytes_.substr(0, 100));
  expect({"its header has", "the file only 100"});
  write(bytes_.substr(0, bytes_.size() - 2));
  expect({"are outside of the file"});
  write("PK\x03\x04 a zip archive, not safetensors, of more than sixteen bytes");
  expect({"at most 67108864 are read"});
  write(with_header("[1, 2]"));
  expect({"its header: no JSON object"});
  write(with_header(R"({"a": )"));
  expect({"its header: no JSON object"});
}

TEST_F(BadInput, HeaderBombs) {
  const uint64_t huge = uint64_t{1} << 60;
  std::string bomb = bytes_;
  std::memcpy(bomb.data(), &huge, sizeof huge);
  write(bomb);
  expect({"its header would have 1152921504606846976 bytes"});
  write(with_header(std::string(1 << 20, '[')));
  expect({"nests deeper than 4 levels"});
  std::string wide = R"({"a": [0)";
  for (int i = 0; i < 4'000'001; ++i) wide += ",0";
  write(with_header(wide + "]}"));
  expect({"has more than 4000000 values"});
  header_[name_]["shape"] = {uint64_t{1} << 40, uint64_t{1} << 40};
  write_header();
  expect({name_.c_str(), "more elements than the file has bytes"});
  header_[name_]["shape"] = json::array({1, 1, 1, 1, 1, 1, 1, 1, 1});
  write_header();
  expect({name_.c_str(), "at most 8 numbers"});
  header_[name_]["shape"] = {-1, 64};
  write_header();
  expect({name_.c_str(), "an extent of its shape is no number"});
}

TEST_F(BadInput, Offsets) {
  const json old = header_[name_]["data_offsets"];
  header_[name_]["data_offsets"] = {old[0], data_.size() + 2};
  write_header();
  expect({name_.c_str(), "are outside of the file"});
  header_[name_]["data_offsets"] = {old[1], old[0]};
  write_header();
  expect({name_.c_str(), "are outside of the file"});
  header_[name_]["data_offsets"] = {old[0]};
  write_header();
  expect({name_.c_str(), "data_offsets are not two numbers"});
  header_[name_]["data_offsets"] = header_["model.layers.0.mlp.down_proj.weight"]["data_offsets"];
  write_header();
  expect({"tensors overlap at byte"});
  header_[name_]["data_offsets"] = old;
  header_[name_]["shape"] = {31, 64};
  write_header();
  expect({name_.c_str(), "BF16 [31, 64] has 3968 bytes, its data_offsets 4096"});
}

TEST_F(BadInput, ShapesAndTypesThatDisagreeWithTheConfig) {
  change_config("intermediate_size", 65);
  expect({"gate_proj.weight", "has shape [64, 32]", "asks for [65, 32]"});
  change_config("intermediate_size", 64);
  header_[name_]["dtype"] = "I16";
  write_header();
  expect({name_.c_str(), "I16", "F32, BF16 and F16"});
  header_[name_]["dtype"] = "Q4_0";
  write_header();
  expect({name_.c_str(), "'Q4_0' is not known"});
}

TEST_F(BadInput, NamesThatAreAbsentOrTooMany) {
  header_["model.layers.1.mlp.down_proj.waight"] = header_[name_];
  header_.erase(name_);
  write_header();
  expect({name_.c_str(), "is absent"});
  SetUp();
  header_["model.layers.1.self_attn.q_norm.weight"] = {{"dtype", "BF16"}, {"shape", {0}}, {"data_offsets", {0, 0}}};
  write_header();
  expect({"model.layers.1.self_attn.q_norm.weight", "does not use it"});
}

TEST_F(BadInput, TiedAndUntiedHeads) {
  header_.erase("lm_head.weight");
  write_header();
  expect({"lm_head.weight is absent", "tie_word_embeddings"});
  change_config("tie_word_embeddings", true);
  EXPECT_EQ(said(), "");
  SetUp();
  change_config("tie_word_embeddings", true);  // a head that is tied may be stored all the same
  EXPECT_EQ(said(), "");
}

TEST_F(BadInput, Configs) {
  change_config("model_type", "gpt-j");
  expect({"model_type is \"gpt-j\"", "llama"});
  SetUp();
  change_config("num_hidden_layers", "three");
  expect({"num_hidden_layers is \"three\"", "must be a whole number"});
  change_config("num_hidden_layers", 0);
  expect({"num_hidden_layers is 0", "must be from 1"});
  change_config("num_hidden_layers", nullptr);
  expect({"num_hidden_layers is absent"});
  SetUp();
  change_config("hidden_act", "swigloo");
  expect({"'swigloo'"});
  SetUp();
  change_config("rope_parameters", {{"rope_type", "spiral"}, {"rope_theta", 1e4}});
  expect({"rope_type is \"spiral\"", "yarn"});
  change_config("rope_parameters", {{"rope_type", "linear"}, {"rope_theta", 1e4}});
  expect({"factor is absent"});
  SetUp();
  change_config("num_key_value_heads", 3);
  expect({"num_key_value_heads is 3", "must divide"});
  write("{", "config.json");
  expect({"no JSON object"});
  write(std::string(1 << 20, '['), "config.json");
  expect({"nests deeper than 32 levels"});
}

// The shards of one model: as good as one file; a missing shard, tensor or a path is named.
TEST_F(BadInput, Shards) {
  json first = json::object();
  json second = json::object();
  json places = json::object();
  for (const auto& [name, entry] : header_.items()) {
    if (name == "__metadata__") continue;
    const bool is_first = places.size() % 2 == 0;
    (is_first ? first : second)[name] = entry;
    places[name] = is_first ? "a.safetensors" : "b.safetensors";
  }
  write(with_header(first.dump()), "a.safetensors");
  write(with_header(second.dump()), "b.safetensors");
  fs::remove(folder_ / "model.safetensors");
  const auto write_index = [&](const json& map) { write(json{{"weight_map", map}}.dump(), "model.safetensors.index.json"); };
  write_index(places);
  EXPECT_EQ(said(), "");
  places["ghost"] = "b.safetensors";
  write_index(places);
  expect({"b.safetensors", "tensor ghost is absent"});
  places["ghost"] = "../../etc/passwd";
  write_index(places);
  expect({"ghost", "is no file of this folder"});
  places["ghost"] = "c.safetensors";
  write_index(places);
  expect({"c.safetensors", "No such file"});
  write("{}", "model.safetensors.index.json");
  expect({"it has no weight_map"});
}

TEST_F(BadInput, PoolsThatAreTooSmall) {
  const LoadedModel model = LoadedModel::open(folder_);
  KvSettings settings;
  settings.max_len = 200;
  settings.pool_bytes = 20000;
  try {
    const Kv kv(model.config, settings);
    ADD_FAILURE() << "it was accepted";
  } catch (const quire::Exception& failure) {
    EXPECT_EQ(failure.code(), QUIRE_RESOURCE_EXHAUSTED);
    EXPECT_NE(std::string(failure.what()).find("200"), std::string::npos) << failure.what();
  }
}

// Halves, bf16 and floats are the same numbers.
TEST(LmCheckpoint, Widens) {
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7c00, 0x8000, 0x3555};
  const float wanted[] = {1, -2, 0x1p-24F, INFINITY, -0.0F, 0.333251953125F};
  TensorView tensor{"t", Dtype::kF16, {6}, reinterpret_cast<const std::byte*>(halves)};
  const std::vector<float> got = tensor.floats();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], wanted[i]) << i;
  const uint16_t brain[] = {0x3f80, 0xc000, 0x7f80};
  tensor = {"t", Dtype::kBf16, {3}, reinterpret_cast<const std::byte*>(brain)};
  EXPECT_EQ(tensor.floats(), (std::vector<float>{1, -2, INFINITY}));
  EXPECT_THROW(tensor.slice(2, 2), Error);
  EXPECT_THROW(tensor.reshaped({2, 2}), Error);
}

}  // namespace
}  // namespace lm
