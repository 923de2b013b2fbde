// Rows of quire/model.h.
#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_model_create) {
  const quire_layer layer = attention_layer(0);
  quire_model* out = nullptr;
  call.elements({"layers"}).bad("count", {0, 65537, UINT64_MAX}, QUIRE_INVALID_ARGUMENT).any({"max_model_len"});
  call(&layer, sizeof layer, uint64_t{1}, uint64_t{64}, &out);
  quire_model_release(out);
}

ROW(quire_model_from_json) {
  quire_model* out = nullptr;
  call(text(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 128,
               "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 4096, "torch_dtype": "bfloat16"})"),
       &out);
  quire_model_release(out);
}

ROW(quire_model_from_layers) {
  quire_model* out = nullptr;
  call(text(R"({"specs": [{"kind": "full", "num_kv_heads": 2, "head_size": 64, "dtype": "bf16"}], "layers": [["layers.0", 0]]})"), &out);
  quire_model_release(out);
}

ROW(quire_model_describe) {
  std::string table(4096, '\0');
  uint64_t count = 0;
  call.null_is_legal({"text"});  // with capacity 0: the size is asked for
  call(rig.model.get(), table.data(), uint64_t{4096}, &count);
  EXPECT_NE(table.find("4 caches"), std::string::npos);
}

ROW(quire_model_retain) { EXPECT_EQ(quire_model_retain(nullptr), nullptr); }

ROW(quire_model_release) { quire_model_release(nullptr); }

ROW(quire_model_get_info) {
  auto info = sized<quire_model_info>();
  call(rig.model.get(), &info);
  EXPECT_EQ(info.num_caches, 4U);
}

ROW(quire_model_get_layer) {
  auto layer = sized<quire_layer>();
  call.bad("index", {4, UINT32_MAX}, QUIRE_OUT_OF_RANGE);
  call(rig.model.get(), 3U, &layer);
  EXPECT_EQ(layer.kind, QUIRE_LAYER_STATE);
}

}  // namespace
}  // namespace quire::test
