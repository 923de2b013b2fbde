// The bad-argument table. A row gives one exported function valid arguments; every wrong one is made here, from the function's own type:
//   handle          NULL, a handle of another type          out-pointer     NULL        DLPack tensor   NULL
//   descriptor      NULL, struct_size 0, short, above 4096, an unknown tail, unknown flags, reserved fields
//   info struct     NULL, struct_size 0, short, above 4096
//   array           NULL with a count
//   two-call array  NULL with a capacity                    text            NULL with a length, longer than any limit
//   real number     not a number, infinity
//   stride          no multiple of 8, too small, too large  function        NULL
//   step            no owner, an owner of another type, an id that is not in flight
//   integer         what the row says is wrong with it: bad(...), or any(...) when every value is legal
// Each must answer its code with a message that names the parameter, the same without an error struct, leave a short error struct alone,
// and change no output. Then every allocation of the valid call fails once: RESOURCE_EXHAUSTED (or it does without), nothing leaks and
// nothing has changed. The last call of a row is the valid one, and works. Rows live in rows/<header>.cc; a function without one fails the
// build.
#pragma once

#include <gtest/gtest.h>
#include <quire/driver.h>
#include <quire/quire.h>

#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../allocations.h"
#include "../api_rig.h"

namespace quire::test {

// Parameters of an exported function, in order; from the headers.
const std::vector<std::string>& parameters_of(const std::string& function);

template <typename T>
concept Complete = requires {
  sizeof(T);
};
template <typename T>
concept Sized = requires(T t) {
  t.struct_size;
};

struct Expected {
  quire_code code = QUIRE_INVALID_ARGUMENT;
  std::string part;  // of the message
};

// The parameters of a function that can fail: those whose last is the error struct.
template <typename Function>
struct ParametersOf {
  using Tuple = void;
};
template <typename... Args>
struct ParametersOf<quire_code (*)(Args...)> {
  using Tuple = std::tuple<Args...>;
};

template <auto kFunction, typename Tuple>
class RowOf {
  static constexpr size_t kNum = std::tuple_size_v<Tuple>;  // the error struct is the last

 public:
  explicit RowOf(const char* name) : name_(name), parameters_(parameters_of(name)) {
    EXPECT_EQ(parameters_.size(), kNum) << name << ": the headers and the compiler disagree";
  }
  ~RowOf() { EXPECT_TRUE(called_) << name_ << ": the row never calls"; }
  RowOf(const RowOf&) = delete;
  RowOf& operator=(const RowOf&) = delete;

  // Before the call
  // -----------------------------------------------------------------------------------------------------------------
  // NULL is legal for these.
  RowOf& null_is_legal(std::initializer_list<const char*> names) { return add(&nullable_, names); }
  // Every value of these integers is legal, or its wrong values depend on others and stand in the
  // row's own lines.
  RowOf& any(std::initializer_list<const char*> names) { return add(&any_, names); }
  // Arrays of structs, read with a stride or exactly; their elements stand in the row's own lines.
  RowOf& elements(std::initializer_list<const char*> names) { return add(&elements_, names); }
  RowOf& bad(const char* name, std::vector<uint64_t> values, quire_code code, std::string part = "") {
    bad_[name] = {std::move(values), {code, part.empty() ? name : std::move(part)}};
    return *this;
  }
  // What the valid call answers where that is not OK.
  RowOf& answers(quire_code code) {
    answer_ = code;
    return *this;
  }

  // Valid arguments without the error struct.
  template <typename... Given>
  void operator()(Given... given) {
    called_ = true;
    const Tuple valid(static_cast<Given>(given)..., nullptr);
    each(valid, std::make_index_sequence<kNum - 1>());
    const auto [code, message] = call_without_memory(valid);
    EXPECT_EQ(code, answer_) << name_ << " with the row's valid arguments: " << message;
  }

 private:
  // The valid call, in the end; before it as often as it allocates, twice each: what is made once
  // for ever is no leak.
  std::pair<quire_code, std::string> call_without_memory(const Tuple& valid) {
    const auto all = std::make_index_sequence<kNum - 1>();
#ifdef NDEBUG
    const bool fails = true;
#else
    const bool fails = false;  // other builds remember handles: what they keep is no leak
#endif
    for (int64_t n = fails ? 0 : int64_t{1} << 40;; n += 1 + n / 32) {
      for (const bool again : {false, true}) {
        const std::vector<const void*> before = outputs(valid, all);
        const std::vector<uint64_t> seen = look(valid, all);
        Error error;
        Tuple arguments = valid;
        std::get<kNum - 1>(arguments) = &error;
        failed = 0;
        until = n;
        const int64_t held = alive;
        armed = true;
        const quire_code code = std::apply(kFunction, arguments);
        armed = false;
        const int64_t more = alive - held;
        if (failed == 0 || code == answer_) return {code, error.message};
        EXPECT_EQ(code, QUIRE_RESOURCE_EXHAUSTED) << name_ << " without its allocation " << n << ": " << error.message;
        EXPECT_EQ(outputs(valid, all), before) << name_ << " without its allocation " << n;
        EXPECT_EQ(look(valid, all), seen) << name_ << " without its allocation " << n << " has changed something";
        EXPECT_TRUE(!again || more == 0) << name_ << " without its allocation " << n << " keeps memory";
        if (testing::Test::HasFailure()) return {code, error.message};
      }
    }
  }

  // What can be asked of a cache among the arguments.
  template <size_t... kI>
  static std::vector<uint64_t> look(const Tuple& arguments, std::index_sequence<kI...>) {
    std::vector<uint64_t> out;
    const auto ask = [&out](auto of) {
      quire_cache* argument = nullptr;
      if constexpr (std::is_same_v<decltype(of), quire_cache*>) argument = of;
      if constexpr (std::is_same_v<decltype(of), quire_step>) argument = static_cast<quire_cache*>(const_cast<void*>(of.owner));
      if (argument != nullptr) {
        quire_cache_stats stats{};
        stats.struct_size = sizeof stats;
        if (quire_cache_get_stats(argument, &stats, nullptr) != QUIRE_OK) return;  // a follower
        const auto* words = reinterpret_cast<const uint64_t*>(&stats);
        out.assign(words, words + sizeof stats / sizeof *words);
        Error error;
        EXPECT_EQ(quire_cache_verify(argument, &error), QUIRE_OK) << error.message;
      }
    };
    (ask(std::get<kI>(arguments)), ...);
    return out;
  }

  RowOf& add(std::set<std::string>* to, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      EXPECT_NE(std::find(parameters_.begin(), parameters_.end(), name), parameters_.end()) << name_ << " has no parameter " << name;
      to->insert(name);
    }
    return *this;
  }

  template <size_t... kI>
  void each(const Tuple& valid, std::index_sequence<kI...>) {
    (wrong<kI>(valid), ...);
  }

  // Everything that can be wrong with parameter kI.
  template <size_t kI>
  void wrong(const Tuple& valid) {
    using T = std::tuple_element_t<kI, Tuple>;
    const std::string& name = parameters_[kI];
    if constexpr (std::is_same_v<T, quire_str>) {
      with<kI>(valid, quire_str{nullptr, 3}, {QUIRE_INVALID_ARGUMENT, name});
      with<kI>(valid, quire_str{"x", uint64_t{1} << 40}, {QUIRE_INVALID_ARGUMENT, name});
    } else if constexpr (std::is_same_v<T, quire_step>) {
      wrong_step<kI>(valid);
    } else if constexpr (std::is_floating_point_v<T>) {
      with<kI>(valid, std::numeric_limits<T>::quiet_NaN(), {QUIRE_INVALID_ARGUMENT, name});
      with<kI>(valid, std::numeric_limits<T>::infinity(), {QUIRE_INVALID_ARGUMENT, name});
    } else if constexpr (std::is_integral_v<T>) {
      wrong_integer<kI>(valid);
    } else {
      if (nullable_.count(name) == 0) {
        with<kI>(valid, T{nullptr}, {QUIRE_INVALID_ARGUMENT, name});
      }
      using Target = std::remove_pointer_t<T>;
      if constexpr (!std::is_function_v<Target> && !std::is_void_v<Target> && !std::is_pointer_v<Target>) wrong_target<kI, Target>(valid);
    }
  }

  template <size_t kI>
  void wrong_step(const Tuple& valid) {
    const quire_step right = std::get<kI>(valid);
    static const uint64_t foreign[8] = {1, 1, 1, 1, 1, 1, 1, 1};  // nobody's tag
    with<kI>(valid, quire_step{}, {QUIRE_INVALID_ARGUMENT, "step.owner is NULL"});
    with<kI>(valid, quire_step{nullptr, right.id}, {QUIRE_INVALID_ARGUMENT, "step.owner is NULL"});
    with<kI>(valid, quire_step{foreign, right.id}, {QUIRE_INVALID_ARGUMENT, "step.owner is not a cache or a follower"});
    for (const uint64_t id : {uint64_t{0}, uint64_t{99}, UINT64_MAX}) {
      with<kI>(valid, quire_step{right.owner, id}, {QUIRE_NOT_FOUND, "step"});
    }
  }

  template <size_t kI>
  void wrong_integer(const Tuple& valid) {
    using T = std::tuple_element_t<kI, Tuple>;
    const std::string& name = parameters_[kI];
    if (name == "stride") {
      for (const uint64_t value : {uint64_t{4}, uint64_t{12}, uint64_t{8192}, UINT64_MAX}) {
        with<kI>(valid, static_cast<T>(value), {QUIRE_INVALID_ARGUMENT, "stride"});
      }
    } else if (bad_.count(name) != 0) {
      for (const uint64_t value : bad_[name].first) with<kI>(valid, static_cast<T>(value), bad_[name].second);
    } else {
      EXPECT_TRUE(any_.count(name) != 0 || name == "capacity")
          << name_ << ": say what is wrong with '" << name << "': bad(\"" << name << "\", values, code) or any({\"" << name << "\"})";
    }
  }

  template <size_t kI, typename Target>
  void wrong_target(const Tuple& valid) {
    using T = std::tuple_element_t<kI, Tuple>;
    using Plain = std::remove_const_t<Target>;
    const std::string& name = parameters_[kI];
    constexpr bool kDlpack = std::is_same_v<Plain, DLManagedTensor> || std::is_same_v<Plain, DLManagedTensorVersioned>;  // no handles
    if constexpr (!Complete<Plain>) {
      if constexpr (!std::is_const_v<Target> && !kDlpack) {
        static uint64_t foreign[8] = {1, 1, 1, 1, 1, 1, 1, 1};  // nobody's tag
        auto* other = reinterpret_cast<T>(foreign);
        with<kI>(valid, other, {QUIRE_INVALID_ARGUMENT, name + " is not a handle of its type"});
      }
    } else if constexpr (Sized<Plain>) {
      if (elements_.count(name) != 0 || name == "items" || std::get<kI>(valid) == nullptr) return;
      struct {
        Plain known;
        uint64_t tail[2];
      } longer{*std::get<kI>(valid), {0, 0}};
      const uint32_t size = sizeof(Plain);
      for (const uint32_t wrong_size : {0U, 4U, 5000U, UINT32_MAX}) {
        longer.known.struct_size = wrong_size;
        with<kI>(valid, &longer.known, {QUIRE_INVALID_ARGUMENT, name + ".struct_size is " + std::to_string(wrong_size)});
      }
      if constexpr (std::is_const_v<Target>) {
        longer.known.struct_size = size + 16;
        longer.tail[1] = 1;
        with<kI>(valid, &longer.known, {QUIRE_UNIMPLEMENTED, name + ": byte " + std::to_string(size + 8)});
        wrong_fields<kI>(valid, *std::get<kI>(valid));
      }
    }
  }

  // What descriptors have in common.
  template <size_t kI, typename Plain>
  void wrong_fields(const Tuple& valid, const Plain& known) {
    const std::string& name = parameters_[kI];
    if constexpr (requires(Plain p) { p.flags; }) {
      Plain own = known;
      own.flags = static_cast<decltype(own.flags)>(own.flags | (decltype(own.flags){1} << (8 * sizeof own.flags - 1)));
      with<kI>(valid, &own, {QUIRE_INVALID_ARGUMENT, name + ".flags"});
    }
    if constexpr (requires(Plain p) { p.reserved0; }) {
      Plain own = known;
      own.reserved0 = 1;
      with<kI>(valid, &own, {QUIRE_INVALID_ARGUMENT, name + ".reserved0"});
    }
  }

  // Outputs must keep their value.
  template <size_t... kI>
  static std::vector<const void*> outputs(const Tuple& arguments, std::index_sequence<kI...>) {
    std::vector<const void*> all;
    const auto add_one = [&](auto argument) {
      using T = decltype(argument);
      if constexpr (std::is_pointer_v<T> && std::is_pointer_v<std::remove_pointer_t<T>> && !std::is_const_v<std::remove_pointer_t<T>>) {
        if (argument != nullptr) all.push_back(*argument);
      }
    };
    (add_one(std::get<kI>(arguments)), ...);
    return all;
  }

  template <size_t kI, typename Value>
  void with(const Tuple& valid, Value value, const Expected& expected) {
    Tuple arguments = valid;
    std::get<kI>(arguments) = value;
    const auto all = std::make_index_sequence<kNum - 1>();
    const std::vector<const void*> before = outputs(arguments, all);
    Error error;
    std::get<kNum - 1>(arguments) = &error;
    SCOPED_TRACE(std::string(name_) + ", wrong " + expected.part);
    EXPECT_EQ(std::apply(kFunction, arguments), expected.code) << error.message;
    EXPECT_EQ(error.code, expected.code);
    EXPECT_NE(std::string(error.message).find(expected.part), std::string::npos) << error.message;
    quire_error small{};
    small.struct_size = 16;
    small.code = 77;
    std::get<kNum - 1>(arguments) = &small;
    EXPECT_EQ(std::apply(kFunction, arguments), expected.code);
    EXPECT_EQ(small.code, 77) << "a short error struct was written";
    std::get<kNum - 1>(arguments) = nullptr;
    EXPECT_EQ(std::apply(kFunction, arguments), expected.code);
    EXPECT_EQ(outputs(arguments, all), before) << "an output changed";
  }

  const char* name_;
  const std::vector<std::string>& parameters_;
  std::set<std::string> nullable_;
  std::set<std::string> any_;
  std::set<std::string> elements_;
  std::map<std::string, std::pair<std::vector<uint64_t>, Expected>> bad_;
  quire_code answer_ = QUIRE_OK;
  bool called_ = false;
};

template <auto kFunction>
class RowOf<kFunction, void> {  // of a function that cannot fail: the row's body says what it does
 public:
  explicit RowOf(const char*) {}
};

template <auto kFunction>
using Row = RowOf<kFunction, typename ParametersOf<decltype(kFunction)>::Tuple>;

// An info struct or descriptor with its size set.
template <typename T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

}  // namespace quire::test

#define ROW(name)                                                                   \
  static void row_##name(::quire::test::Rig& rig, ::quire::test::Row<&name>& call); \
  TEST(Rows, name) {                                                                \
    ::quire::test::Rig quire_rig;                                                   \
    ASSERT_TRUE(quire_rig.whole());                                                 \
    ::quire::test::Row<&name> quire_row(#name);                                     \
    row_##name(quire_rig, quire_row);                                               \
  }                                                                                 \
  static void row_##name([[maybe_unused]] ::quire::test::Rig& rig, [[maybe_unused]] ::quire::test::Row<&name>& call)
