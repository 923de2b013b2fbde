#include "core/modules/driver_table.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <tuple>

namespace quire {
namespace {

void write_unimplemented(quire_error* error, const char* kind, const char* entry) {
  if (error == nullptr || error->struct_size < sizeof(quire_error)) return;
  error->code = QUIRE_UNIMPLEMENTED;
  error->native_code = 0;
  error->native_domain = 0;
  std::snprintf(error->source, sizeof error->source, "%s", kind);
  std::snprintf(error->message, sizeof error->message, "this %s has no entry '%s'", kind, entry);
}

// A stub of an entry's own type: `Entry` says kind and name.
template <typename Entry, typename Function>
struct Stub;
template <typename Entry, typename... Args>
struct Stub<Entry, quire_code (*)(Args...)> {
  static quire_code call(Args... args) {
    std::tuple<Args...> all(args...);
    write_unimplemented(std::get<sizeof...(Args) - 1>(all), Entry::kKind, Entry::kName);
    return QUIRE_UNIMPLEMENTED;
  }
};
template <typename Entry, typename... Args>
struct Stub<Entry, void (*)(Args...)> {
  static void call(Args...) {}
};

// Takes one entry over or fills its hole.
template <typename Entry, typename Table, typename Function>
Status copy_entry(const unsigned char* from, uint32_t from_size, Table* to, size_t offset, Function Table::*member, bool required) {
  Function function = nullptr;
  if (offset + sizeof function <= from_size) std::memcpy(&function, from + offset, sizeof function);
  if (function == nullptr && required) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "required entry '%s' is missing (the table has %u bytes, the entry stands at %zu)", Entry::kName,
                from_size, offset);
  }
  to->*member = function != nullptr ? function : &Stub<Entry, Function>::call;
  return {};
}

Status check_table_size(uint32_t size) {
  if (size < 8 || size % 8 != 0 || size > 65536) {
    return fail(QUIRE_INCOMPATIBLE_ABI, "table struct_size %u is not a multiple of 8 in [8, 65536]", size);
  }
  return {};
}

// X(entry, required)
#define QUIRE_DRIVER_ENTRIES(X) \
  X(create, true)               \
  X(destroy, true)              \
  X(device_count, true)         \
  X(device_open, true)          \
  X(device_close, true)         \
  X(device_info, true)          \
  X(mem_alloc, false)           \
  X(mem_free, false)            \
  X(tensor_create, false)       \
  X(stream_create, false)       \
  X(stream_destroy, false)      \
  X(stream_synchronize, false)  \
  X(event_create, false)        \
  X(event_destroy, false)       \
  X(event_record, false)        \
  X(event_wait, false)          \
  X(event_synchronize, false)   \
  X(copy, false)                \
  X(fill, false)                \
  X(kv_append, false)           \
  X(attention_workspace, false) \
  X(attention_plan, false)      \
  X(attention, false)           \
  X(attention_merge, false)     \
  X(gated_delta, false)         \
  X(conv1d, false)              \
  X(selective_scan, false)

#define QUIRE_CONNECTOR_ENTRIES(X) \
  X(open, true)                    \
  X(close, true)                   \
  X(info, true)                    \
  X(region_register, false)        \
  X(region_unregister, false)      \
  X(submit, true)                  \
  X(poll, true)                    \
  X(cancel, false)                 \
  X(get_fd, false)                 \
  X(health, false)                 \
  X(list, false)

namespace driver_entries {
#define QUIRE_ENTRY(entry, required)                                \
  struct entry {                                                    \
    [[maybe_unused]] static constexpr const char* kKind = "driver"; \
    [[maybe_unused]] static constexpr const char* kName = #entry;   \
  };
QUIRE_DRIVER_ENTRIES(QUIRE_ENTRY)
#undef QUIRE_ENTRY
}  // namespace driver_entries

namespace connector_entries {
#define QUIRE_ENTRY(entry, required)                                   \
  struct entry {                                                       \
    [[maybe_unused]] static constexpr const char* kKind = "connector"; \
    [[maybe_unused]] static constexpr const char* kName = #entry;      \
  };
QUIRE_CONNECTOR_ENTRIES(QUIRE_ENTRY)
#undef QUIRE_ENTRY
}  // namespace connector_entries

uint32_t table_size(const void* api) {
  uint32_t size = 0;
  std::memcpy(&size, api, sizeof size);
  return size;
}

}  // namespace

Result<quire_driver_api> copy_driver_table(const void* api) {
  const uint32_t size = table_size(api);
  QUIRE_RETURN_IF_ERROR(check_table_size(size));
  const auto* from = static_cast<const unsigned char*>(api);
  quire_driver_api table{};
  table.struct_size = sizeof table;
#define QUIRE_ENTRY(entry, required) \
  QUIRE_RETURN_IF_ERROR(             \
      copy_entry<driver_entries::entry>(from, size, &table, offsetof(quire_driver_api, entry), &quire_driver_api::entry, required));
  QUIRE_DRIVER_ENTRIES(QUIRE_ENTRY)
#undef QUIRE_ENTRY
  return table;
}

Result<quire_connector_api> copy_connector_table(const void* api) {
  const uint32_t size = table_size(api);
  QUIRE_RETURN_IF_ERROR(check_table_size(size));
  const auto* from = static_cast<const unsigned char*>(api);
  quire_connector_api table{};
  table.struct_size = sizeof table;
#define QUIRE_ENTRY(entry, required)                                                                                   \
  QUIRE_RETURN_IF_ERROR(copy_entry<connector_entries::entry>(from, size, &table, offsetof(quire_connector_api, entry), \
                                                             &quire_connector_api::entry, required));
  QUIRE_CONNECTOR_ENTRIES(QUIRE_ENTRY)
#undef QUIRE_ENTRY
  return table;
}

}  // namespace quire
