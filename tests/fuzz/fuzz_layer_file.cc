// Layer files: whatever the text, a model whose plan holds what it says, or a sentence.
#include <string_view>

#include "tests/fuzz/plan_small.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return quire::fuzz::plan_or_sentence(quire::read_layer_file({reinterpret_cast<const char*>(data), size}));
}
