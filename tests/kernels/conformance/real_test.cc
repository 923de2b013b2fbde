// Number formats of drivers/common: every code decodes as the oracle says, every rounding is to nearest even.
#include "drivers/common/real.h"

#include "tests/kernels/conformance/cases.h"
#include "tests/kernels/conformance/oracle.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace quire::conformance {
namespace {

const quire_dtype kFormats[] = {kF16, kBf16, kE4m3, kE5m2};

TEST(Real, EveryCodeDecodes) {
  for (quire_dtype t : kFormats) {
    const drivers::Real real = drivers::real_of(t);
    for (uint32_t code = 0; code < (1u << t.bits); ++code) {
      const double want = oracle::decode(t, &code);
      const float got = drivers::load_real(real, &code);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << int{t.code} << " " << code;
      } else {
        ASSERT_EQ(static_cast<double>(got), want) << int{t.code} << " " << code;
        ASSERT_EQ(std::signbit(got), std::signbit(want));
      }
    }
  }
}

TEST(Real, CodesRoundToThemselves) {
  for (quire_dtype t : kFormats) {
    for (uint32_t code = 0; code < (1u << t.bits); ++code) {
      const double value = oracle::decode(t, &code);
      if (!std::isfinite(value)) continue;
      uint32_t back = 0;
      drivers::store_real(drivers::real_of(t), &back, static_cast<float>(value));
      ASSERT_EQ(back, code);
    }
  }
}

// Each midpoint between two neighbours, and its fp32 neighbours; then random numbers of all magnitudes.
TEST(Real, RoundsToNearestEven) {
  for (quire_dtype t : kFormats) {
    auto check = [&](float f) {
      uint32_t got = 0;
      uint32_t want = 0;
      drivers::store_real(drivers::real_of(t), &got, f);
      oracle::encode(t, &want, static_cast<double>(f));
      ASSERT_EQ(got, want) << "format " << int{t.code} << "/" << int{t.bits} << " of " << f;
    };
    for (uint32_t code = 0; code + 1 < (1u << (t.bits - 1)); ++code) {
      const uint32_t next = code + 1;
      const double a = oracle::decode(t, &code);
      const double b = oracle::decode(t, &next);
      if (!std::isfinite(a) || !std::isfinite(b)) continue;
      const auto middle = static_cast<float>((a + b) / 2);
      for (float f : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, INFINITY)}) {
        check(f);
        check(-f);
      }
    }
    for (uint64_t i = 0; i < 200000; ++i) {
      const auto bits = static_cast<uint32_t>(mixed(31, i));
      float f = 0;
      memcpy(&f, &bits, sizeof f);
      if (std::isfinite(f)) check(f);
    }
    check(INFINITY);
    check(-INFINITY);
    uint32_t nan_code = 0;
    drivers::store_real(drivers::real_of(t), &nan_code, NAN);
    EXPECT_TRUE(std::isnan(oracle::decode(t, &nan_code)));
  }
}

}  // namespace
}  // namespace quire::conformance
