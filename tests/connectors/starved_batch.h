// A batch of all kinds of tickets while an allocation fails.
#pragma once

#include <cstdint>

#include "tests/connectors/kit.h"

namespace quire::kit {

struct Starved {
  bool is_refused = false;   // submit said so
  uint64_t num_starved = 0;  // tickets that ended with another code than OK or NOT_FOUND
};

// Stores the object under `fresh`, loads `read` of it from key(1), looks key(1) and key(2) up, and
// removes key(3). The allocation after `after` others fails, in all threads. What must hold: every
// ticket that was accepted ends; submit says OK or RESOURCE_EXHAUSTED, tickets these, NOT_FOUND, or
// `lost`; no byte that is not a ticket's is written, and a load that worked brought its bytes.
void run_starved(Client& client, int64_t after, const Key& fresh, const Bytes& object,  //
                 Layout read, quire_code lost, Starved* out);

}  // namespace quire::kit
