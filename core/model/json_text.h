// Untrusted JSON: size and depth are limited before anything is parsed, and no exception leaves.
#pragma once

#include <functional>
#include <string_view>

#include "core/base/status.h"
#include "core/model/json.h"
#include "core/model/model_layers.h"

namespace quire {

// Parses the text and hands it to `read`; `name` starts every message. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, those of `read`.
Result<Model> with_json(std::string_view text, const char* name, const std::function<Result<Model>(const Json&)>& read);

}  // namespace quire
