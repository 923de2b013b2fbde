// Extension ops of the driver under test, called through the library: every published signature is read, every op named echo.* is called
// with random arguments in both forms and must answer as drivers/null/echo.c says; wrong arity and types are refused.
#include <gtest/gtest.h>
#include <quire/quire.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/conformance/open_driver.h"

namespace quire::conformance {
namespace {

struct Release {
  void operator()(quire_runtime* h) const { quire_runtime_release(h); }
  void operator()(quire_extension* h) const { quire_extension_release(h); }
  void operator()(quire_device* h) const { quire_device_release(h); }
  void operator()(quire_stream* h) const { quire_stream_release(h); }
};

quire_str text(const std::string& from) { return {from.data(), from.size()}; }
std::string string_of(quire_str from) { return {from.data, from.len}; }

class Extension : public testing::Test {
 protected:
  void SetUp() override {
    const std::string path = module_folder();
    quire_runtime_options options{};
    options.struct_size = sizeof options;
    options.header_abi = QUIRE_ABI_VERSION;
    options.driver = text(driver().name);
    options.driver_path = text(path);
    options.flags = QUIRE_RUNTIME_NO_ENV | QUIRE_RUNTIME_TRUST_PATHS;
    quire_error err = fresh_error();
    quire_runtime* made = nullptr;
    ASSERT_EQ(quire_runtime_create(&options, &made, &err), QUIRE_OK) << err.message;
    runtime_.reset(made);
    uint64_t count = 0;
    ASSERT_EQ(quire_extension_list(runtime_.get(), {}, nullptr, 0, 0, &count, &err), QUIRE_OK) << err.message;
    ops_.resize(count);
    ASSERT_EQ(quire_extension_list(runtime_.get(), {}, ops_.data(), sizeof(quire_extension_info), count, &count, &err), QUIRE_OK)
        << err.message;
  }

  std::unique_ptr<quire_extension, Release> find(const std::string& name, uint32_t form) {
    quire_error err = fresh_error();
    quire_extension* op = nullptr;
    EXPECT_EQ(quire_extension_find(runtime_.get(), {}, text(name), 1, form, &op, &err), QUIRE_OK) << name << ": " << err.message;
    return std::unique_ptr<quire_extension, Release>(op);
  }

  std::unique_ptr<quire_runtime, Release> runtime_;
  std::vector<quire_extension_info> ops_;
};

// The words between the brackets that callers pass values for.
std::vector<std::string> words_of(const std::string& signature) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : signature.substr(signature.find('(') + 1)) {
    if (c != ',' && c != ')') {
      word += c;
      continue;
    }
    if (!word.empty() && word != "self" && word != "error") words.push_back(word);
    word.clear();
  }
  return words;
}

int32_t type_of(const std::string& word) {
  static const char* const kWords[] = {"void", "i32", "i64", "u32", "u64", "f32", "f64", "ptr", "str", "tensor", "stream"};
  for (int32_t i = 0; i < 11; ++i) {
    if (word == kWords[i]) return i;
  }
  return -1;
}

struct Arguments {
  quire_str name{"four", 4};
  quire_tensor tensor{};
  quire_stream* stream = nullptr;
  std::vector<quire_value> values;
  uint64_t fold = 0;
};

// Any bit pattern is legal but a signalling NaN, which a machine may quieten on the way.
uint64_t float_bits(uint64_t raw, bool wide) {
  if (wide) return (raw & 0x7ff0000000000000U) == 0x7ff0000000000000U ? raw & ~uint64_t{0x0010000000000000U} : raw;
  return (raw & 0x7f800000U) == 0x7f800000U ? raw & 0xff7fffffU : raw & 0xffffffffU;
}

void make_arguments(const std::string& signature, std::mt19937_64& random, Arguments* all) {
  static const uint64_t kEdges[] = {0, 1, UINT64_MAX, 0x80000000U, 0x7fffffffU, uint64_t{1} << 63, uint64_t{1} << 32};
  all->tensor.ndim = static_cast<int32_t>(random() % 6);
  for (const std::string& word : words_of(signature)) {
    const int32_t type = type_of(word);
    quire_value value{type, 0, random() % 4 == 0 ? kEdges[random() % 7] : random()};
    const bool half = type == QUIRE_VALUE_I32 || type == QUIRE_VALUE_U32;
    if (half) value.bits &= 0xffffffffU;
    if (type == QUIRE_VALUE_F32 || type == QUIRE_VALUE_F64) value.bits = float_bits(value.bits, type == QUIRE_VALUE_F64);
    uint64_t counted = value.bits;
    if (type == QUIRE_VALUE_STR) value.bits = reinterpret_cast<uint64_t>(&all->name), counted = all->name.len;
    if (type == QUIRE_VALUE_TENSOR)
      value.bits = reinterpret_cast<uint64_t>(&all->tensor), counted = static_cast<uint64_t>(all->tensor.ndim);
    if (type == QUIRE_VALUE_STREAM) value.bits = reinterpret_cast<uint64_t>(all->stream), counted = 1;
    all->values.push_back(value);
    all->fold = all->fold * 31 + counted;
  }
}

TEST_F(Extension, EverySignatureIsReadAndEveryFormIsFound) {
  for (const quire_extension_info& op : ops_) {
    const std::string signature = string_of(op.signature);
    EXPECT_EQ(words_of(signature).size(), op.num_args) << signature;
    EXPECT_NE(op.doc.len, 0U) << string_of(op.name);
    for (const uint32_t form : {QUIRE_EXTENSION_NATIVE, QUIRE_EXTENSION_PACKED}) {
      if ((op.flags & form) == 0) continue;
      const auto found = find(string_of(op.name), form);
      ASSERT_NE(found, nullptr);
      quire_extension_info info{};
      info.struct_size = sizeof info;
      ASSERT_EQ(quire_extension_get_info(found.get(), &info, nullptr), QUIRE_OK);
      EXPECT_EQ(string_of(info.signature), signature);
    }
  }
}

TEST_F(Extension, RandomCallsOverEchoOps) {
  const char* given = std::getenv("QUIRE_SEED");  // NOLINT(concurrency-mt-unsafe)
  const uint64_t seed = given == nullptr ? std::random_device{}() : std::strtoull(given, nullptr, 10);
  std::mt19937_64 random(seed);
  SCOPED_TRACE("QUIRE_SEED=" + std::to_string(seed));
  quire_error err = fresh_error();
  quire_device* device = nullptr;
  quire_stream* stream = nullptr;
  ASSERT_EQ(quire_device_open(runtime_.get(), 0, &device, &err), QUIRE_OK) << err.message;
  const std::unique_ptr<quire_device, Release> owned_device(device);
  ASSERT_EQ(quire_stream_create(device, 0, &stream, &err), QUIRE_OK) << err.message;
  const std::unique_ptr<quire_stream, Release> owned_stream(stream);
  uint64_t calls = 0;
  for (const quire_extension_info& op : ops_) {
    const std::string name = string_of(op.name);
    const std::string signature = string_of(op.signature);
    const std::string result = signature.substr(0, signature.find('('));
    if (name.rfind("echo.", 0) != 0 || result == "code") continue;
    for (const uint32_t form : {QUIRE_EXTENSION_NATIVE, QUIRE_EXTENSION_PACKED}) {
      const auto found = find(name, form);
      for (int round = 0; round < 200; ++round, ++calls) {
        Arguments args;
        args.stream = stream;
        make_arguments(signature, random, &args);
        quire_value answer{};
        ASSERT_EQ(quire_extension_call(found.get(), args.values.data(), args.values.size(), &answer, &err), QUIRE_OK) << err.message;
        ASSERT_EQ(answer.type, type_of(result)) << name;
        if (result == "void") continue;
        uint64_t wanted = args.values.size() == 1 ? args.values[0].bits : args.fold;
        uint64_t got = answer.bits;
        if (result == "i32") wanted &= 0xffffffffU, got &= 0xffffffffU;
        ASSERT_EQ(got, wanted) << name << " form " << form;
      }
    }
  }
  if (calls == 0) GTEST_SKIP() << "driver " << driver().name << " publishes no echo ops";
}

TEST_F(Extension, WrongArityAndTypesAreRefused) {
  quire_error err = fresh_error();
  quire_extension* missing = nullptr;
  EXPECT_EQ(quire_extension_find(runtime_.get(), {}, text("no.such.op"), 0, 0, &missing, &err), QUIRE_NOT_FOUND);
  EXPECT_NE(std::string(err.message).find("publishes no op 'no.such.op'"), std::string::npos) << err.message;
  for (const quire_extension_info& op : ops_) {
    const auto found = find(string_of(op.name), 0);
    std::vector<quire_value> values(op.num_args + 1);
    for (const uint64_t n : {uint64_t{op.num_args} + 1, uint64_t{op.num_args} - 1}) {
      EXPECT_EQ(quire_extension_call(found.get(), values.data(), n, nullptr, &err), QUIRE_INVALID_ARGUMENT);
      EXPECT_NE(std::string(err.message).find("takes " + std::to_string(op.num_args)), std::string::npos) << err.message;
    }
    if (op.num_args == 0) continue;
    for (const int32_t type : {-1, 0, 11, 64, 65, 66}) {  // no types of values
      values[0].type = type;
      EXPECT_EQ(quire_extension_call(found.get(), values.data(), op.num_args, nullptr, &err), QUIRE_INVALID_ARGUMENT) << type;
      EXPECT_NE(std::string(err.message).find("args[0].type is " + std::to_string(type)), std::string::npos) << err.message;
    }
    EXPECT_EQ(quire_extension_find(runtime_.get(), {}, op.name, op.version + 1, 0, &missing, &err), QUIRE_NOT_FOUND);
  }
  EXPECT_EQ(missing, nullptr);
}

}  // namespace
}  // namespace quire::conformance
