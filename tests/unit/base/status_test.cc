// Method: examples. What reports failure cannot be taken for success.
#include "core/base/status.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Status, AFailureIsNeverOk) {
  const Status odd = fail(QUIRE_OK, "said to be fine, %d times", 7);
  EXPECT_FALSE(odd.ok());
  EXPECT_EQ(odd.code(), QUIRE_INTERNAL);
  EXPECT_EQ(odd.message(), "said to be fine, 7 times");
  EXPECT_EQ(fail(QUIRE_NOT_FOUND, "gone").code(), QUIRE_NOT_FOUND);
  quire_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(odd.write_to(&error, "test"), QUIRE_INTERNAL);
  EXPECT_EQ(error.code, QUIRE_INTERNAL);
  EXPECT_STREQ(error.message, "said to be fine, 7 times");
}

TEST(Status, ControlCharactersOfAMessageAreEscaped) {
  const std::string escape =
      "a\x1b[2Jb\r\n\tc\x7f\xc2\x9b"
      "d \xc3\xa9";  // the last two bytes are a letter
  EXPECT_EQ(invalid("name '%s'", escape.c_str()).message(), "name 'a\\x1b[2Jb\\x0d\\n\\tc\\x7f\\x9bd \xc3\xa9'");
  quire_error error{};
  error.struct_size = sizeof error;
  EXPECT_EQ(Status(QUIRE_NOT_FOUND, escape).write_to(&error, "library"), QUIRE_NOT_FOUND);
  for (const char* c = error.message; *c != '\0'; ++c) EXPECT_FALSE(static_cast<unsigned char>(*c) < 0x20 || *c == 0x7f);
  EXPECT_EQ(printable("\xc2"), "\xc2") << "cut inside a character";
  EXPECT_EQ(printable("\x9b[31m"), "\\x9b[31m") << "what terminals of 8 bits obey";
  EXPECT_EQ(printable("\xe2\x9b[31m\xe2\x9b"), "\xe2\\x9b[31m\xe2\\x9b") << "characters that do not end";
  EXPECT_EQ(printable("\u20ac \xf0\x9f\x9a\x80 \u009b"), "\u20ac \xf0\x9f\x9a\x80 \\x9b") << "later bytes that look like C1";
}

TEST(Status, AResultWithoutAValueIsAFailure) {
  Result<int> odd = Status();
  EXPECT_FALSE(odd.ok());
  EXPECT_EQ(odd.status().code(), QUIRE_INTERNAL);
  EXPECT_EQ(odd.status().message(), "a result was made of success and has no value");
  const Status moved = odd.take_status();
  EXPECT_FALSE(moved.ok());
  EXPECT_EQ(Status(QUIRE_OK, "said to be fine").code(), QUIRE_INTERNAL);
  Result<int> plain = fail(QUIRE_NOT_FOUND, "gone");
  EXPECT_EQ(plain.status().code(), QUIRE_NOT_FOUND);
  EXPECT_EQ(*Result<int>(7), 7);
}

}  // namespace
}  // namespace quire
