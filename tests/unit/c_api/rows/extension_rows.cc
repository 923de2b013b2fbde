// Rows of quire/extension.h, over the echo ops of the null driver.
#include "rows.h"

namespace quire::test {
namespace {

struct ReleaseOp {
  void operator()(quire_extension* h) const { quire_extension_release(h); }
};

std::unique_ptr<quire_extension, ReleaseOp> find(const Rig& rig, const char* name, uint32_t form = 0) {
  quire_extension* op = nullptr;
  Error e;
  EXPECT_EQ(quire_extension_find(rig.runtime.get(), {}, text(name), 0, form, &op, &e), QUIRE_OK) << e.message;
  return std::unique_ptr<quire_extension, ReleaseOp>(op);
}

ROW(quire_extension_list) {
  std::vector<quire_extension_info> items(64);
  uint64_t count = 0;
  call(rig.runtime.get(), quire_str{}, items.data(), sizeof(quire_extension_info), items.size(), &count);
  EXPECT_GT(count, 10U);
  EXPECT_FAILS(QUIRE_OUT_OF_RANGE, "capacity is 1",
               quire_extension_list(rig.runtime.get(), {}, items.data(), sizeof(quire_extension_info), 1, &count, err));
  EXPECT_FAILS(QUIRE_NOT_FOUND, "libquire_connector_nosuch.so",
               quire_extension_list(rig.runtime.get(), text("nosuch"), nullptr, 0, 0, &count, err));
}

ROW(quire_extension_find) {
  quire_extension* out = nullptr;
  call.bad("min_version", {2, UINT32_MAX}, QUIRE_NOT_FOUND).bad("form", {3, UINT32_MAX}, QUIRE_INVALID_ARGUMENT);
  call(rig.runtime.get(), quire_str{}, text("echo.u64"), 0U, 0U, &out);
  quire_extension_release(out);
  out = nullptr;
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "name is empty", quire_extension_find(rig.runtime.get(), {}, {}, 0, 0, &out, err));
  EXPECT_FAILS(QUIRE_NOT_FOUND, "driver:null publishes no op 'echo'",
               quire_extension_find(rig.runtime.get(), {}, text("echo"), 0, 0, &out, err));
  EXPECT_EQ(out, nullptr);
}

ROW(quire_extension_retain) { EXPECT_EQ(quire_extension_retain(nullptr), nullptr); }

ROW(quire_extension_release) { quire_extension_release(nullptr); }

ROW(quire_extension_get_info) {
  const auto op = find(rig, "echo.u64");
  auto info = sized<quire_extension_info>();
  call(op.get(), &info);
  EXPECT_EQ(std::string(info.signature.data, info.signature.len), "u64(u64)");
  EXPECT_EQ(info.flags, QUIRE_EXTENSION_NATIVE | QUIRE_EXTENSION_PACKED);
}

ROW(quire_extension_call) {
  const auto op = find(rig, "echo.u64");
  const quire_value args[2] = {{QUIRE_VALUE_U64, 0, 5}, {}};
  quire_value result{};
  call.null_is_legal({"result"}).bad("n", {0, 2}, QUIRE_INVALID_ARGUMENT, "echo.u64");
  call(op.get(), args, uint64_t{1}, &result);
  EXPECT_EQ(result.bits, 5U);
  quire_value wrong = {QUIRE_VALUE_U64, 1, 5};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "args[0].reserved0 is 1", quire_extension_call(op.get(), &wrong, 1, nullptr, err));
  wrong = {QUIRE_VALUE_F64, 0, 5};
  EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "args[0].type is 6 (f64), the signature wants u64",
               quire_extension_call(op.get(), &wrong, 1, nullptr, err));
}

TEST(Ops, WidenNameFailAndKeepTheirDriver) {
  for (const uint32_t form : {QUIRE_EXTENSION_NATIVE, QUIRE_EXTENSION_PACKED}) {
    Rig rig;
    const auto wide = find(rig, "echo.i64", form);
    const auto code = find(rig, "echo.code", form);
    const auto named = find(rig, "echo.named", form);
    const quire_value minus = {QUIRE_VALUE_I32, 0, 0xfffffffdU};
    quire_value result{};
    EXPECT_WORKS(quire_extension_call(wide.get(), &minus, 1, &result, err));
    EXPECT_EQ(static_cast<int64_t>(result.bits), -3);
    // Codes of the op are the call's, with the op's own words and its source.
    const quire_value eight = {QUIRE_VALUE_I32, 0, QUIRE_RESOURCE_EXHAUSTED};
    EXPECT_FAILS(QUIRE_RESOURCE_EXHAUSTED, "code 8 was asked for", quire_extension_call(code.get(), &eight, 1, nullptr, err));
    EXPECT_EQ(quire_extension_call(code.get(), &eight, 1, nullptr, nullptr), QUIRE_RESOURCE_EXHAUSTED);
    const quire_value unknown = {QUIRE_VALUE_I32, 0, 4711};
    EXPECT_FAILS(QUIRE_UNKNOWN, "unknown code 4711", quire_extension_call(code.get(), &unknown, 1, nullptr, err));
    // Texts, tensors and streams are checked before the op sees them.
    const quire_str word = text("word");
    quire_tensor tensor{};
    tensor.ndim = 3;
    quire_value args[3] = {{QUIRE_VALUE_STR, 0, reinterpret_cast<uint64_t>(&word)},
                           {QUIRE_VALUE_TENSOR, 0, reinterpret_cast<uint64_t>(&tensor)},
                           {QUIRE_VALUE_STREAM, 0, reinterpret_cast<uint64_t>(rig.stream.get())}};
    EXPECT_WORKS(quire_extension_call(named.get(), args, 3, &result, err));
    EXPECT_EQ(result.bits, (4U * 31 + 3) * 31 + 1);
    args[2].bits = reinterpret_cast<uint64_t>(rig.device.get());
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "args[2] is not a handle of its type", quire_extension_call(named.get(), args, 3, &result, err));
    const Rig other;
    args[2].bits = reinterpret_cast<uint64_t>(other.stream.get());
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "args[2] is a stream of another driver", quire_extension_call(named.get(), args, 3, &result, err));
    args[2].bits = reinterpret_cast<uint64_t>(rig.stream.get());
    tensor.ndim = 9;
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "ndim is 9", quire_extension_call(named.get(), args, 3, &result, err));
    args[0].bits = 0;
    EXPECT_FAILS(QUIRE_INVALID_ARGUMENT, "args[0] is a NULL str", quire_extension_call(named.get(), args, 3, &result, err));
    // The op outlives the runtime's handle.
    rig.runtime.reset();
    rig.device.reset();
    EXPECT_WORKS(quire_extension_call(wide.get(), &minus, 1, &result, err));
  }
}

}  // namespace
}  // namespace quire::test
