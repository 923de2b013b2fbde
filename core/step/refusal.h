// Why an entry of a step is refused: the code that callers branch on, and a sentence for people.
#pragma once

#include <quire/step.h>

#include <string_view>

namespace quire {

quire_code code_of(quire_refusal reason);
// "unknown reason" for a number that is none.
std::string_view refusal_text(quire_refusal reason);

}  // namespace quire
