// Signatures of extension ops: the grammar, what widens to what, and tables of ops that a module may not publish.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/modules/op_registry.h"

namespace quire {
namespace {

TEST(Signature, ReadsEveryWord) {
  auto signature = parse_signature("code(self,i32,i64,u32,u64,f32,f64,ptr,str,tensor,stream,error)");
  ASSERT_TRUE(signature.ok()) << signature.status().message();
  EXPECT_EQ(signature->result, ValueType::kCode);
  EXPECT_EQ(signature->num_parameters, 12U);
  EXPECT_EQ(signature->num_args(), 10U);
  EXPECT_EQ(signature->arg(0), ValueType::kI32);
  EXPECT_EQ(signature->arg(9), ValueType::kStream);
  EXPECT_EQ(parse_signature("void()")->num_args(), 0U);
}

TEST(Signature, RefusesWhatIsNone) {
  for (const char* wrong : {"",
                            "void",
                            "void(",
                            "(i32)",
                            "i32(i32",
                            "i32(i32,)",
                            "i32(,i32)",
                            "i32(i32, i32)",
                            "str()",
                            "tensor()",
                            "void(void)",
                            "void(code)",
                            "void(i32,self)",
                            "void(error,i32)",
                            "void(self,self)",
                            "u8()",
                            "void()x",
                            "void(i32)(i32)",
                            "I32()",
                            "void(i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32,i32)"}) {
    auto signature = parse_signature(wrong);
    EXPECT_FALSE(signature.ok()) << wrong;
    EXPECT_EQ(signature.status().code(), QUIRE_INVALID_ARGUMENT) << wrong;
  }
}

TEST(Widening, LosesNothing) {
  quire_value out{};
  EXPECT_TRUE(widen({QUIRE_VALUE_I32, 0, 0xfffffff6U}, ValueType::kI64, &out));
  EXPECT_EQ(static_cast<int64_t>(out.bits), -10);
  EXPECT_TRUE(widen({QUIRE_VALUE_U32, 0, 0xdeadbeef00000007U}, ValueType::kI64, &out));
  EXPECT_EQ(out.bits, 7U);
  EXPECT_TRUE(widen({QUIRE_VALUE_F32, 0, __builtin_bit_cast(uint32_t, 1.5F)}, ValueType::kF64, &out));
  EXPECT_EQ(__builtin_bit_cast(double, out.bits), 1.5);
  const std::vector<std::pair<int32_t, ValueType>> refused = {{QUIRE_VALUE_I64, ValueType::kI32}, {QUIRE_VALUE_U64, ValueType::kI64},
                                                              {QUIRE_VALUE_I32, ValueType::kU64}, {QUIRE_VALUE_F64, ValueType::kF32},
                                                              {QUIRE_VALUE_U32, ValueType::kF64}, {QUIRE_VALUE_U64, ValueType::kPointer},
                                                              {QUIRE_VALUE_VOID, ValueType::kI32}};
  for (const auto& [from, to] : refused) EXPECT_FALSE(widen({from, 0, 1}, to, &out)) << from << " to " << type_word(to);
}

quire_str text(const char* from) { return {from, std::strlen(from)}; }
void nothing() {}

quire_extension_entry good() {
  return {sizeof(quire_extension_entry), 1, text("vendor.op"), text("void()"), text("does nothing"), nothing, nullptr};
}

std::string refusal(const std::vector<quire_extension_entry>& entries) {
  const quire_extension_table table = {sizeof table, sizeof(quire_extension_entry), entries.size(), entries.data()};
  auto ops = read_op_table(&table);
  return ops.ok() ? "" : ops.status().message();
}

TEST(OpTable, TakesGoodOnesAndNamesTheWrongEntry) {
  EXPECT_EQ(refusal({good()}), "");
  EXPECT_EQ(refusal({good(), good()}), "ops[1]: the name 'vendor.op' is taken by an earlier op");
  quire_extension_entry wrong = good();
  wrong.name = text("Vendor");
  EXPECT_EQ(refusal({wrong}), "ops[0]: its name is not of the form [a-z0-9_.-]{1,63}");
  wrong = good();
  wrong.version = 0;
  EXPECT_EQ(refusal({wrong}), "ops[0]: op 'vendor.op' has version 0");
  wrong = good();
  wrong.native = nullptr;
  EXPECT_EQ(refusal({wrong}), "ops[0]: op 'vendor.op' has no function");
  wrong = good();
  wrong.signature = text("void(int)");
  EXPECT_EQ(refusal({wrong}), "ops[0]: signature of op 'vendor.op': 'int' is no parameter of a signature");
  wrong = good();
  wrong.struct_size = 8;
  EXPECT_EQ(refusal({wrong}), "ops[0]: struct_size 8 is too small");
  wrong = good();
  wrong.doc = {nullptr, 4};
  EXPECT_NE(refusal({wrong}).find("longer than 1024"), std::string::npos);
  quire_extension_table table = {sizeof table, 12, 1, &wrong};
  EXPECT_NE(read_op_table(&table).status().message().find("stride 12"), std::string::npos);
  table = {sizeof table, sizeof(quire_extension_entry), UINT64_MAX, &wrong};
  EXPECT_NE(read_op_table(&table).status().message().find("count 18446744073709551615"), std::string::npos);
  EXPECT_TRUE(read_op_table(nullptr)->empty());
}

}  // namespace
}  // namespace quire
