// Rows of quire/pin.h.
#include "rows.h"

namespace quire::test {
namespace {

// A prompt that was computed and that nobody uses any more.
std::vector<quire_symbol> cached_prompt(Rig& rig) {
  std::vector<quire_symbol> prompt(20);
  for (quire_symbol i = 0; i < prompt.size(); ++i) prompt[i] = i + 1;
  quire_sequence_id sequence = 0;
  EXPECT_EQ(quire_sequence_create(rig.cache.get(), nullptr, &sequence, nullptr), QUIRE_OK);
  const quire_step step = rig.reserve(sequence, prompt, QUIRE_ENTRY_MATCH);
  auto info = sized<quire_step_info>();
  EXPECT_EQ(quire_step_get_info(step, &info, nullptr), QUIRE_OK);
  quire_commit_entry entry{};
  entry.sequence = sequence;
  entry.num_accepted = static_cast<uint32_t>(info.num_tokens);
  EXPECT_EQ(quire_commit(step, &entry, 1, nullptr, 0, nullptr), QUIRE_OK);
  EXPECT_EQ(quire_sequence_finish(rig.cache.get(), sequence, nullptr), QUIRE_OK);
  return prompt;
}

quire_pin_id pinned(Rig& rig) {
  const std::vector<quire_symbol> prompt = cached_prompt(rig);
  uint64_t tokens = 0;
  quire_pin_id pin = 0;
  EXPECT_EQ(quire_pin(rig.cache.get(), nullptr, prompt.data(), prompt.size(), nullptr, &tokens, &pin, nullptr), QUIRE_OK);
  EXPECT_GT(tokens, 0U);
  return pin;
}

const std::vector<uint64_t> kNoPin = {0, 99, UINT64_MAX};

ROW(quire_pin) {
  const std::vector<quire_symbol> prompt = cached_prompt(rig);
  const auto identity = sized<quire_identity>();
  const auto options = sized<quire_pin_options>();
  uint64_t tokens = 0;
  quire_pin_id out = 0;
  auto wrong = options;
  wrong.priority = 256;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "options.priority: 256",
               quire_pin(rig.cache.get(), nullptr, prompt.data(), prompt.size(), &wrong, &tokens, &out, err));
  EXPECT_FAILS(QUIRE_NOT_FOUND, "symbols", quire_pin(rig.cache.get(), nullptr, prompt.data() + 1, 4, &options, &tokens, &out, err));
  EXPECT_EQ(tokens + out, 0U);
  call.null_is_legal({"identity", "options"}).any({"num_symbols"});
  call(rig.cache.get(), &identity, prompt.data(), prompt.size(), &options, &tokens, &out);
}

ROW(quire_unpin) {
  call.bad("pin", kNoPin, QUIRE_NOT_FOUND);
  call(rig.cache.get(), pinned(rig));
}

ROW(quire_pin_get_info) {
  auto info = sized<quire_pin_info>();
  call.bad("pin", kNoPin, QUIRE_NOT_FOUND);
  call(rig.cache.get(), pinned(rig), &info);
  EXPECT_EQ(info.deadline_ns, INT64_MAX);
  EXPECT_GT(info.num_parts, 0U);
}

}  // namespace
}  // namespace quire::test
