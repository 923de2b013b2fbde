// Labels of samples, as the text has them: name="value",name="value".
#pragma once

#include <string>
#include <string_view>

#include "core/base/status.h"

namespace quire {

// Checks what an engine gave and brings it into one form, sorted by name: texts of the same labels
// are equal. Errors: INVALID_ARGUMENT (syntax, no UTF-8, a name twice or one that quire uses).
Result<std::string> read_labels(std::string_view text);
// Appends one label; the value is escaped. NUL, and where it is no UTF-8 all but ASCII, become "?".
void add_label(std::string_view name, std::string_view value, std::string* labels);

}  // namespace quire
