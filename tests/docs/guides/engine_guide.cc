// Runs the C++ code of docs/in-your-engine.md: prefill, a prefix found again, and a pool too small for two; a model with states.
// The code of the page stands first: it includes what it needs.
#include "in_your_engine_cpp.inc"

#include <cstdio>
#include <numeric>

namespace {

constexpr std::string_view kConfig =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "torch_dtype": "bfloat16"})";

constexpr std::string_view kHybrid = R"({"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", "num_hidden_layers": 4,
    "hidden_size": 256, "full_attention_interval": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64,
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 16, "linear_num_key_heads": 4, "linear_num_value_heads": 8,
    "linear_value_head_dim": 16, "max_position_embeddings": 1024, "torch_dtype": "bfloat16"})";

int failures = 0;

void expect(bool condition, const char* what) {
  if (!condition) std::printf("%s is false\n", what), ++failures;
}

// One prompt in one step.
quire::Sequence prefill(Engine& e, std::span<const quire_symbol> prompt, quire_reserve_result& got) {
  quire::Batch batch = quire::Batch::create(e.config);
  quire::Sequence sequence = e.cache.create_sequence();
  quire_reserve_entry want{};
  want.sequence = sequence.id();
  want.num_symbols = want.num_tokens = static_cast<uint32_t>(prompt.size());
  want.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
  quire::Step step = begin(e, {&want, 1}, prompt, {&got, 1}, batch);
  if (!step) return sequence;
  expect(batch[0].query_indptr[1] == static_cast<int32_t>(got.num_tokens), "one row of what is computed");
  std::array<int32_t, 2> offsets{};
  std::array<int32_t, 32> indices{};
  fill_offsets_and_indices(step, 0, offsets, indices);
  expect(offsets[1] > 0 && indices[0] == batch[0].table[0], "the same table as offsets and indices");
  const uint8_t ends = 1;
  const quire_symbol next = 7;
  end(std::move(step), {&got, 1}, {&ends, 1}, {&next, 1});
  return sequence;
}

// The first groups have states, the last a table: all are filled, and a step that could not be prepared is not in flight.
void run_hybrid() {
  Engine e(kHybrid, 4 << 20);
  std::vector<quire_symbol> prompt(300);
  std::iota(prompt.begin(), prompt.end(), 0);
  const quire::Sequence sequence = e.cache.create_sequence();
  quire_reserve_entry want{};
  want.sequence = sequence.id();
  want.num_symbols = want.num_tokens = 300;
  want.flags = QUIRE_ENTRY_MATCH | QUIRE_ENTRY_PROMPT_END;
  quire_reserve_result got{};
  expect(e.config.group(0).is_state != 0, "the first group has states");
  alignas(16) std::array<std::byte, 64> few{};
  auto too_small = quire::make<quire_batch_options>();
  too_small.memory = few.data();
  too_small.bytes = few.size();
  quire::Batch refused = quire::Batch::create(e.config, too_small);
  try {
    begin(e, {&want, 1}, prompt, {&got, 1}, refused);
    expect(false, "a batch without room is refused");
  } catch (const quire::Exception& failure) {
    expect(failure.code() == QUIRE_OUT_OF_RANGE, "a batch without room is refused by name");
  }
  quire::Batch batch = quire::Batch::create(e.config);
  quire::Step step = begin(e, {&want, 1}, prompt, {&got, 1}, batch);
  expect(static_cast<bool>(step), "the step before was aborted");
  for (uint32_t g = 0; g < batch.groups().size(); ++g) {
    const quire_batch& of = batch[g];
    if (e.config.group(g).is_state != 0) {
      expect(of.table == nullptr && of.state_read[0] == 0 && of.state_write[0] > 0, "states");
    } else {
      expect(of.state_read == nullptr && of.table[0] > 0 && of.slots[0] == int64_t{of.table[0]} * e.config.group(g).kernel_block_tokens,
             "a table");
    }
  }
  const quire_layer layer = quire::Model::from_json(kHybrid).layer(3);
  try {
    attend(e, batch, layer, {}, {}, {}, {});
    expect(false, "the null driver has no kernels");
  } catch (const quire::Exception& failure) {
    expect(failure.code() == QUIRE_UNIMPLEMENTED, "the null driver names the kernel that it lacks");
  }
  const uint8_t ends = 0;
  end(std::move(step), {&got, 1}, {&ends, 1}, {});
}

void run() {
  Engine e(kConfig, 40 * 4096);
  std::vector<quire_symbol> prompt(400);
  std::iota(prompt.begin(), prompt.end(), 0);
  quire_reserve_result got{};
  std::vector<quire::Sequence> running;
  watch_units(e, 16);
  prefill(e, std::span(prompt).first(100), got);
  expect(got.num_tokens == 100, "all of the first prompt is computed");
  uint32_t stored = 0;
  store_units(e, [&](const quire_unit& unit, uint32_t group, std::span<const int32_t> ids) {
    ++stored;
    expect(group == 0 && ids.size() == 1 && ids[0] != 0 && unit.end_token == 16 * stored, "a block of the unit");
  });
  expect(stored == 6 && e.cache.stats().holds == 0, "every unit is stored and let go");
  running.push_back(prefill(e, prompt, got));
  expect(got.hit_tokens == 96, "96 tokens are found again");
  prompt[0] = 9999;
  {
    const quire::Sequence starved = prefill(e, prompt, got);
    expect(got.code == QUIRE_RESOURCE_EXHAUSTED, "there is no room for two");
    const auto preempted = give_way(got, running);
    expect(preempted && running.empty(), "the running one gives way");
  }
  prefill(e, prompt, got);
  expect(got.code == QUIRE_OK, "now there is room");
  expect(e.cache.stats().preemptions == 1 && e.cache.stats().num_sequences == 0, "all ended with their objects");
  try {
    const Engine wrong(kConfig.substr(0, 20), 1 << 20);
    expect(false, "a cut config is refused");
  } catch (const quire::Exception& failure) {
    expect(failure.code() == QUIRE_INVALID_ARGUMENT, "a cut config is refused by name");
  }
}

// Whole requests on a model whose first groups have states: what is reused, and that no step stays in flight after an error.
void run_requests() {
  Engine e(kHybrid, 4 << 20);
  quire::Batch batch = quire::Batch::create(e.config);
  std::vector<quire_symbol> prompt(300);
  std::iota(prompt.begin(), prompt.end(), 1000);
  uint32_t runs = 0, fail_at = 0;
  const RunModel model = [&](Engine&, const quire::Batch& of, const quire::Step& step) {
    expect(step && of[0].query_indptr[1] > 0 && of[0].kv_len[0] >= of[0].query_indptr[1], "one row");
    if (++runs == fail_at) throw quire::Exception(quire::Error(QUIRE_UNAVAILABLE, "the model fails"));
    return 500 + runs;
  };
  Served served = serve(e, batch, model, "tenant", prompt, 4);
  expect(served.reused == 0 && served.symbols.size() == 4 && runs > 4, "more than one chunk, then symbol by symbol");
  expect(served.symbols[3] == 500 + runs && served.symbols[0] == 500 + runs - 3, "the symbols are the model's");
  served = serve(e, batch, model, "tenant", prompt, 4);
  expect(served.reused > 200, "found again");
  expect(serve(e, batch, model, "another", prompt, 1).reused == 0, "not by others");
  fail_at = runs + 2;
  try {
    (void)serve(e, batch, model, "tenant", prompt, 4);
    expect(false, "a model that fails ends the request");
  } catch (const quire::Exception& failure) {
    expect(failure.code() == QUIRE_UNAVAILABLE && runs == fail_at, "its failure comes back");
  }
  expect(e.cache.stats().num_sequences == 0, "the sequence went with the request");
  expect(serve(e, batch, model, "tenant", prompt, 4).symbols.size() == 4, "no step is left in flight");
  Engine small(kConfig, 40 * 4096);
  quire::Batch few = quire::Batch::create(small.config);
  quire_reserve_result got{};
  const quire::Sequence running = prefill(small, std::vector<quire_symbol>(400, 5), got);
  try {
    (void)serve(small, few, model, "", std::vector<quire_symbol>(400, 6), 1);
    expect(false, "there is no room");
  } catch (const quire::Exception& failure) {
    expect(failure.code() == QUIRE_RESOURCE_EXHAUSTED, "the entry's code comes back");
  }
}

}  // namespace

int main() {
  try {
    run();
    run_hybrid();
    run_requests();
  } catch (const std::exception& failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}
