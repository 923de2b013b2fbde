// What the error codes of Mooncake mean for tickets.
#pragma once

#include <quire/base.h>

#include <cstdint>
#include <string>

namespace quire::mooncake {

// Those that are treated one by one.
inline constexpr int64_t kNoRoom = -200;
inline constexpr int64_t kInvalidParameters = -600;
inline constexpr int64_t kAlreadyExists = -705;
inline constexpr int64_t kLeaseExpired = -707;

// 0 and more: OK. A code that nobody knows: INTERNAL.
quire_code code_of(int64_t answer);
// Its name and number, for messages.
std::string name_of(int64_t answer);
// Whether no byte moves any more after a transfer was answered so. Mooncake answers TRANSFER_FAIL
// after a time, and its peer may still write then.
bool is_settled(int64_t answer);

}  // namespace quire::mooncake
