// quire.hpp: the C ABI of quire as C++20. Handles release themselves. Spans replace pointer and
// count. Errors are values or exceptions.
//
//   Errors     A call returns Result<T>: a value, or an Error with code and message. If QUIRE_EXCEPTIONS is defined before the include, it
//              returns T and throws Exception instead. Units of one program may choose differently.
//   Handles    Move-only. A handle that was moved from is empty: its calls are refused with INVALID_ARGUMENT, and destroying it does
//              nothing. quire keeps parents alive, so handles may be destroyed in any order, from any thread.
//   Structs    Those of the C headers, which document every field and every function. make<T>() zeroes one and sets struct_size.
//   Threads    As in the C headers: the caller serializes the calls of one Cache, its Sequences and Steps included.
//   Memory     Nothing is copied on the way to C. Functions that return std::vector or std::string allocate, and so does a Batch when it
//              grows. reserve, fill, commit and the ops do not.
#pragma once

#include "quire_cpp/base.hpp"
#include "quire_cpp/cache.hpp"
#include "quire_cpp/device.hpp"
#include "quire_cpp/metrics.hpp"
#include "quire_cpp/sessions.hpp"
#include "quire_cpp/step.hpp"
#include "quire_cpp/tiers.hpp"
