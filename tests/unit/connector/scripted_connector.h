// A connector without a file whose entries say what a test wants: for what no honest one says.
#pragma once

#include <functional>
#include <vector>

#include "tests/unit/connector/connector_rig.h"

namespace quire::test {

// What the entries answer, from open_scripted on. Entries without a function accept everything, end
// nothing and register regions 1, 2, ...
struct Script {
  std::function<quire_code(quire_connector_info*)> info;
  std::function<quire_code(uint64_t n, uint64_t* accepted)> submit;
  std::function<quire_code(std::span<quire_completion>, uint64_t* count)> poll;
  std::function<quire_code(int32_t*)> fd;
  std::function<quire_code(quire_connector_health*)> health;
  std::function<quire_code(uint64_t* cursor, std::span<quire_object_entry>, uint64_t* count)> list;
  std::function<quire_code(uint64_t* region)> region_register;
  std::function<quire_code(uint64_t region)> region_unregister;
  std::function<quire_code(uint64_t ticket)> cancel;
  bool opens_nothing = false;
  uint64_t regions = 0;
  uint64_t closes = 0;
};

inline Script& script() {
  static Script only;
  return only;
}

// Completions that poll gives next, all at once.
inline void give(std::vector<quire_completion> ends) {
  script().poll = [ends](std::span<quire_completion> items, uint64_t* count) mutable {
    *count = std::min(ends.size(), items.size());
    std::copy_n(ends.begin(), *count, items.begin());
    ends.clear();
    return QUIRE_OK;
  };
}

quire_code scripted_query(const quire_query* query, const quire_manifest** out, quire_error* err);

// The connector "scripted", or "least": the same with the required entries alone. With a new
// script.
Result<std::unique_ptr<Connector>> try_scripted(const std::string& name,  // scripted, least
                                                const Script& wanted = {}, std::string_view config = "{}");
Connected open_scripted(const Script& wanted = {});

}  // namespace quire::test
