// Small configs and the rows of the table that people see. Private to these tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/model/model_layers.h"

namespace quire::shapes {

// Rows with runs of spaces made one.
inline std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  }
  return out;
}

inline std::string table(const std::string& config) {
  const auto model = read_hf_config(config);
  return model.ok() ? squeezed(describe(model.value())) : "refused: " + model.status().message();
}

// A config of two lists of fields; an architecture where it is not empty.
inline std::string made(const std::string& architecture, const std::string& fields) {
  return (architecture.empty() ? "{" : R"({"architectures": [")" + architecture + R"("], )") + fields + "}";
}

inline const std::string kHeads = R"("num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "hidden_size": 256,
    "max_position_embeddings": 4096, "dtype": "bfloat16", )";

struct Case {
  const char* architecture;
  std::string fields;
  std::vector<const char*> rows;
};

inline void expect(const Case& one) {
  const std::string found = table(made(one.architecture, one.fields));
  for (const char* row : one.rows) EXPECT_NE(found.find(row), std::string::npos) << one.architecture << ": " << row << "\nin\n" << found;
}

}  // namespace quire::shapes
