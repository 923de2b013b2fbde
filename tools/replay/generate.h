// Traces that are made, not recorded: the same for the same seed on every machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "replay/trace.h"

namespace quire::replay {

// Coding agents: `sessions` of them, each a chain of requests whose prompt is all that was said
// before. A system prompt of 6,000 tokens is common to all, and one of 2,000 to 8,000 to the agents
// of one of 12 repositories. A turn adds what the model wrote (40 to 600 tokens) and what a tool
// answered (mostly 50 to 1,500 tokens, one in eight up to 8,000). A session has 10 to 60 turns and
// ends at 120,000 tokens. Sessions begin 20 s apart on average; a tool takes 1 to 20 s, a person
// who is asked (one turn in six) up to 5 minutes. Requests are in the order of their arrival.
std::vector<Request> generate_agents(uint64_t sessions, uint64_t seed);

// Questions about documents: 1 of 400 documents of 2,000 to 30,000 tokens, some much more often
// than others (Zipf with exponent 0.9), behind a system prompt of 800 tokens, then a question of 20
// to 400 tokens that nobody asked before. One in three is followed by one or two more questions of
// the same conversation. Requests are in the order of their arrival.
std::vector<Request> generate_documents(uint64_t requests, uint64_t seed);

// Whether this names a made trace: "agents:150", "documents:4000" or "conversations:4000" (see
// generate_trace in trace.h). The number is that of sessions or requests.
bool is_made(const std::string& name);
// Throws std::invalid_argument with the name and the limits.
std::vector<Request> make_trace(const std::string& name, uint64_t seed);

}  // namespace quire::replay
