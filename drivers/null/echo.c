/* Two rules say what every echo op answers. An op of one argument and that argument's type answers the argument. An op with result u64
 * answers the fold of its arguments: h = 0, then h = h * 31 + bits for each, where bits is as in quire_value; a str counts as its length, a
 * tensor as its ndim, a stream as 1 when it is there. Each op has both forms. */
#include "echo.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static uint64_t fold(uint64_t h, uint64_t bits) { return h * 31 + bits; }

static uint64_t single_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Integers in a quire_value: 32-bit ones count by their low half. */
static uint64_t low(int32_t value) { return (uint32_t)value; }

static int32_t echo_i32(int32_t a) { return a; }
static int64_t echo_i64(int64_t a) { return a; }
static uint32_t echo_u32(uint32_t a) { return a; }
static uint64_t echo_u64(uint64_t a) { return a; }
static float echo_f32(float a) { return a; }
static double echo_f64(double a) { return a; }
static const void* echo_ptr(const void* a) { return a; }
static void echo_nothing(void) {}

static quire_code echo_code(void* self, int32_t code, quire_error* err) {
  if (code != 0) snprintf(err->message, sizeof err->message, "code %d was asked for%s", code, self == NULL ? " of nobody" : "");
  return code;
}

/* More integers, then more floats, than registers carry; and everything mixed. */
static uint64_t echo_integers(int32_t a, int64_t b, uint32_t c, uint64_t d, int32_t e, int64_t f, uint32_t g, uint64_t h, int32_t i,
                              int64_t j, uint32_t k, uint64_t l, int32_t m, int64_t n, uint32_t o, uint64_t p) {
  uint64_t all = fold(fold(fold(fold(0, low(a)), (uint64_t)b), c), d);
  all = fold(fold(fold(fold(all, low(e)), (uint64_t)f), g), h);
  all = fold(fold(fold(fold(all, low(i)), (uint64_t)j), k), l);
  return fold(fold(fold(fold(all, low(m)), (uint64_t)n), o), p);
}

static uint64_t echo_floats(float a, double b, float c, double d, float e, double f, float g, double h, float i, double j, float k,
                            double l) {
  uint64_t all = fold(fold(fold(fold(0, single_bits(a)), double_bits(b)), single_bits(c)), double_bits(d));
  all = fold(fold(fold(fold(all, single_bits(e)), double_bits(f)), single_bits(g)), double_bits(h));
  return fold(fold(fold(fold(all, single_bits(i)), double_bits(j)), single_bits(k)), double_bits(l));
}

static uint64_t echo_mixed(void* self, int32_t a, double b, uint64_t c, float d, int64_t e, double f, uint32_t g, float h, uint64_t i,
                           const void* j, float k, int64_t l, double m, quire_error* err) {
  uint64_t all = fold(fold(fold(fold(0, low(a)), double_bits(b)), c), single_bits(d));
  all = fold(fold(fold(fold(all, (uint64_t)e), double_bits(f)), g), single_bits(h));
  all = fold(fold(fold(fold(all, i), (uint64_t)(uintptr_t)j), single_bits(k)), (uint64_t)l);
  return self == NULL || err == NULL ? 0 : fold(all, double_bits(m));
}

static uint64_t echo_named(const quire_str* text, const quire_tensor* tensor, const void* stream) {
  return fold(fold(fold(0, text->len), (uint64_t)tensor->ndim), stream != NULL);
}

static uint64_t bits_of(const quire_value* value) {
  switch (value->type) {
    case QUIRE_VALUE_I32:
    case QUIRE_VALUE_U32:
    case QUIRE_VALUE_F32:
      return (uint32_t)value->bits;
    case QUIRE_VALUE_STR:
      return ((const quire_str*)(uintptr_t)value->bits)->len;
    case QUIRE_VALUE_TENSOR:
      return (uint64_t)((const quire_tensor*)(uintptr_t)value->bits)->ndim;
    case QUIRE_VALUE_STREAM:
      return value->bits != 0;
    default:
      return value->bits;
  }
}

static quire_code packed_same(void* self, const quire_value* args, uint64_t n, quire_value* result, quire_error* err) {
  (void)self;
  (void)err;
  if (n == 1) *result = args[0];
  return QUIRE_OK;
}

static quire_code packed_fold(void* self, const quire_value* args, uint64_t n, quire_value* result, quire_error* err) {
  uint64_t all = 0;
  uint64_t i;
  (void)self;
  (void)err;
  for (i = 0; i < n; ++i) all = fold(all, bits_of(&args[i]));
  result->bits = all;
  return QUIRE_OK;
}

static quire_code packed_code(void* self, const quire_value* args, uint64_t n, quire_value* result, quire_error* err) {
  (void)n;
  (void)result;
  return echo_code(self, (int32_t)args[0].bits, err);
}

#define TEXT(literal) \
  { literal, sizeof(literal) - 1 }
#define ECHO(name, signature, doc, function, packed) \
  { sizeof(quire_extension_entry), 1, TEXT("echo." name), TEXT(signature), TEXT(doc), (quire_native_fn)(function), (packed) }

static const quire_extension_entry ops[] = {
    ECHO("i32", "i32(i32)", "answers its argument", echo_i32, packed_same),
    ECHO("i64", "i64(i64)", "answers its argument", echo_i64, packed_same),
    ECHO("u32", "u32(u32)", "answers its argument", echo_u32, packed_same),
    ECHO("u64", "u64(u64)", "answers its argument", echo_u64, packed_same),
    ECHO("f32", "f32(f32)", "answers its argument", echo_f32, packed_same),
    ECHO("f64", "f64(f64)", "answers its argument", echo_f64, packed_same),
    ECHO("ptr", "ptr(ptr)", "answers its argument", echo_ptr, packed_same),
    ECHO("nothing", "void()", "does nothing", echo_nothing, packed_same),
    ECHO("code", "code(self,i32,error)", "fails with the code it is given", echo_code, packed_code),
    ECHO("integers", "u64(i32,i64,u32,u64,i32,i64,u32,u64,i32,i64,u32,u64,i32,i64,u32,u64)", "folds its arguments", echo_integers,
         packed_fold),
    ECHO("floats", "u64(f32,f64,f32,f64,f32,f64,f32,f64,f32,f64,f32,f64)", "folds its arguments", echo_floats, packed_fold),
    ECHO("mixed", "u64(self,i32,f64,u64,f32,i64,f64,u32,f32,u64,ptr,f32,i64,f64,error)", "folds its arguments", echo_mixed, packed_fold),
    ECHO("named", "u64(str,tensor,stream)", "folds length, ndim and presence of its arguments", echo_named, packed_fold),
};

const quire_extension_table null_ops = {sizeof(quire_extension_table), sizeof(quire_extension_entry), sizeof ops / sizeof ops[0], ops};
