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

}  // namespace
}  // namespace quire
