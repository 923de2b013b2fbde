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
