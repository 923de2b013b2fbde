// The settings of a connector: one JSON object without objects or arrays in it. Each field is asked
// for once, by name; finish() then refuses every field that nobody asked for. The first thing that
// is wrong is kept as a sentence that names the field, its value and what is legal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire::plugins {

class Settings {
 public:
  // Empty text has no fields.
  explicit Settings(std::string_view json);

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // Fields that are absent have the value `absent`. After an error the value is any legal one.
  uint64_t number(std::string_view name, uint64_t low, uint64_t high, uint64_t absent);
  // A number of bytes, or text such as "2GiB": a whole number and B, KiB, MiB, GiB, TiB, KB, MB, GB
  // or TB.
  uint64_t size(std::string_view name, uint64_t low, uint64_t high, uint64_t absent);
  bool flag(std::string_view name, bool absent);
  std::string text(std::string_view name, std::string_view absent);
  // For rules of the connector itself. The first error stays.
  void refuse(std::string sentence);
  // The field must be there. what: of it, for the message.
  void require(std::string_view name, std::string_view what);

  // Ends the reading. Empty = nothing is wrong.
  const std::string& finish();

 private:
  enum class Kind { kNumber, kText, kFlag, kOther };
  struct Field {
    std::string name;
    Kind kind = Kind::kOther;
    uint64_t number = 0;
    bool flag = false;
    std::string text;     // of kText
    std::string written;  // as messages show the value
  };
  class Reader;

  const Field* find(std::string_view name) const;
  const Field* ask(std::string_view name);
  uint64_t checked(const Field& field, uint64_t value, uint64_t low, uint64_t high);
  void wrong(const Field& field, const std::string& legal);

  std::vector<Field> fields_;
  std::vector<std::string> asked_;
  std::string error_;
  std::string missing_;  // told last: an unknown field may be the missing one, misspelt
};

}  // namespace quire::plugins
