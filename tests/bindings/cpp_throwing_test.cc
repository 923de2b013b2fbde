// quire.hpp with exceptions, in a program whose other units take errors as values.
#define QUIRE_EXCEPTIONS
#include <gtest/gtest.h>

#include <array>

#include "tests/bindings/cpp_rig.h"

namespace {

TEST(CppThrowing, ACallReturnsItsValueOrThrowsCodeAndMessage) {
  const quire_layer layer = rig_layer();
  const quire::Config config = quire::Config::create(quire::Model::create({&layer, 1}, 64), rig_room(9));
  EXPECT_EQ(config.info().num_pages, 9U);
  try {
    (void)config.group(5);
    FAIL() << "there is no group 5";
  } catch (const quire::Exception& failure) {
    EXPECT_EQ(failure.code(), QUIRE_OUT_OF_RANGE);
    EXPECT_NE(std::string(failure.what()).find('5'), std::string::npos) << failure.what();
    EXPECT_STREQ(failure.error().source(), "library");
  }
}

TEST(CppThrowing, WhatWasOpenedBeforeAThrowIsReleased) {  // leaks are found by LeakSanitizer
  const auto device = quire::Device::open(quire::Runtime::create(rig_options("null")));
  const auto stream = quire::Stream::create(device);
  quire_tensor wish{};
  wish.dtype = {QUIRE_DTYPE_UINT, 8, 1};
  wish.ndim = 1;
  wish.shape[0] = 64;
  const auto work = [&] {
    const auto tensor = quire::Tensor::create(device, wish);
    stream.fill({static_cast<std::byte*>(tensor.view.data), 64}, 3);
    stream.gated_delta(quire::make<quire_gated_delta>());
  };
  EXPECT_THROW(work(), quire::Exception);
}

TEST(CppThrowing, AThrowInAStepLeavesTheCacheAsBefore) {
  const quire_layer layer = rig_layer();
  const auto cache = quire::Cache::create(quire::Runtime{}, quire::Config::create(quire::Model::create({&layer, 1}, 64), rig_room(9)));
  const auto work = [&] {
    const quire::Sequence sequence = cache.create_sequence();
    quire_reserve_entry want{};
    want.sequence = sequence.id();
    want.num_tokens = 20;
    quire_reserve_result got{};
    const quire::Step step = cache.reserve({&want, 1}, {}, {&got, 1});
    EXPECT_EQ(cache.stats().num_sequences, 1U);
    EXPECT_GT(cache.stats().pages_used, 0U);
    std::array<int32_t, 1> small{};
    step.fill(QUIRE_FILL_POSITIONS, small);  // 20 are needed
  };
  EXPECT_THROW(work(), quire::Exception);
  EXPECT_EQ(cache.stats().num_sequences, 0U);
  EXPECT_EQ(cache.stats().pages_used, 0U) << "the step was aborted, the sequence finished";
  EXPECT_EQ(cache.stats().aborted_steps, 1U);
  cache.verify();
}

}  // namespace
