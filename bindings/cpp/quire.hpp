// quire.hpp: the C ABI of quire as C++20. Handles release themselves, spans stand for pointer and count, errors are values or exceptions.
//
//   Errors     A call returns Result<T>: a value, or an Error with code and message. Where QUIRE_EXCEPTIONS is defined before the include
//   it
//              returns T and throws Exception instead. Units of one program may choose differently.
//   Handles    Move-only. A handle that was moved from is empty: its calls are refused with INVALID_ARGUMENT, destroying it does nothing.
//              Parents are kept alive by quire itself, so handles may be destroyed in any order, from any thread.
//   Structs    Those of the C headers, which say what every field and every function means; make<T>() zeroes one and sets struct_size.
//   Threads    As the C headers say: calls of one Cache (its Sequences and Steps included) are serialized by the caller.
//   Memory     Nothing is copied on the way to C. Functions that return std::vector or std::string allocate; reserve, fill, commit and the
//              ops do not.
#pragma once

#include "quire_cpp/base.hpp"
#include "quire_cpp/cache.hpp"
#include "quire_cpp/device.hpp"
