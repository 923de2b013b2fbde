// What a plan counts of drafts (speculative decoding).
#pragma once

#include <string>
#include <vector>

#include "client/client.h"
#include "quire/commands.h"

namespace quire::tools {

// The text of the config, read as asked, with the draft that --speculative names. Throws
// std::invalid_argument for methods without layers and for layer files, which name their draft
// layers themselves.
std::string text_of(const PlanArguments& arguments);

// What is counted: which layers draft and how far ahead. Empty without --speculative.
std::string drafts_note(quire_model* model, const PlanArguments& arguments);

// How many tokens drafts write ahead; 0 = nothing is drafted.
uint32_t draft_tokens_of(quire_model* model);

// Tokens that windows keep for draft modules in series, as vLLM does where a config counts several
// (num_nextn_predict_layers); else 0.
uint32_t retained_for(quire_model* model, const PlanArguments& arguments);

// Layers of each pipeline stage: the model's evenly, drafts in the last one. Empty where nothing is
// drafted.
std::vector<uint32_t> stages_with_drafts(quire_model* model, uint32_t stages);

}  // namespace quire::tools
