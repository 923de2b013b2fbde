#include "core/step/refusal.h"

#include <array>

namespace quire {
namespace {

struct Reason {
  quire_code code;
  std::string_view text;
};

// By quire_refusal.
constexpr std::array<Reason, 13> kReasons = {{
    {QUIRE_OK, "admitted"},
    {QUIRE_RESOURCE_EXHAUSTED, "no room: finish or preempt a sequence, or wait"},
    {QUIRE_RESOURCE_EXHAUSTED, "it would not fit an empty pool: give fewer tokens at once, or give the sequence up"},
    {QUIRE_NOT_READY, "the step's tokens are used up: ask again in the next step"},
    {QUIRE_OUT_OF_RANGE, "the sequence would be longer than max_model_len: end it"},
    {QUIRE_NOT_FOUND, "no such sequence"},
    {QUIRE_ALREADY_EXISTS, "an earlier entry of the step names the same sequence"},
    {QUIRE_FAILED_PRECONDITION, "a load of the sequence is in progress: end it first"},
    {QUIRE_INVALID_ARGUMENT, "num_tokens is 0"},
    {QUIRE_INVALID_ARGUMENT, "QUIRE_ENTRY_MATCH and encoder_tokens are for sequences without tokens"},
    {QUIRE_INVALID_ARGUMENT, "QUIRE_ENTRY_MATCH needs the symbols of the prompt"},
    {QUIRE_INVALID_ARGUMENT, "symbols_position is not the position of the first symbol that is not known"},
    {QUIRE_OUT_OF_RANGE, "num_look_ahead leaves no token of max_tokens_per_step"},
}};

}  // namespace

quire_code code_of(quire_refusal reason) { return kReasons.at(static_cast<size_t>(reason)).code; }

std::string_view refusal_text(quire_refusal reason) {
  const auto i = static_cast<size_t>(reason);
  return reason < 0 || i >= kReasons.size() ? "unknown reason" : kReasons[i].text;
}

}  // namespace quire
