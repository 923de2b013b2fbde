// Rows of quire/base.h.
#include <gtest/gtest-spi.h>

#include "rows.h"

namespace quire::test {
namespace {

ROW(quire_abi_version) { EXPECT_EQ(quire_abi_version(), static_cast<uint32_t>(QUIRE_ABI_VERSION)); }

ROW(quire_version) { EXPECT_GT(quire_version().len, 0U); }

ROW(quire_code_name) {
  for (const quire_code unknown : {-1, 16, 63, 67, INT32_MIN, INT32_MAX}) {
    EXPECT_EQ(std::string(quire_code_name(unknown).data), "UNKNOWN") << unknown;
  }
}

ROW(quire_runtime_create) {
  quire_runtime* out = nullptr;
  const quire_runtime_options options = runtime_options("none");
  call.null_is_legal({"options"});
  call(&options, &out);
  quire_runtime_release(out);
}

ROW(quire_runtime_retain) { EXPECT_EQ(quire_runtime_retain(nullptr), nullptr); }

ROW(quire_runtime_release) { quire_runtime_release(nullptr); }

ROW(quire_runtime_probe) {
  std::vector<quire_probe_info> items(64);
  uint64_t count = 0;
  call(rig.runtime.get(), items.data(), sizeof(quire_probe_info), items.size(), &count);
  EXPECT_GT(count, 0U);
}

// The table itself: a function that accepts everything, and one that names nothing, are noticed.
quire_code accepts_everything(quire_model*, quire_model_info*, quire_error* err) {
  if (err != nullptr) err->code = QUIRE_OK;
  return QUIRE_OK;
}

quire_code names_nothing(quire_model* model, quire_model_info*, quire_error* err) {
  if (err != nullptr && err->struct_size == sizeof *err) err->code = QUIRE_INVALID_ARGUMENT;
  return model == nullptr ? QUIRE_INVALID_ARGUMENT : QUIRE_OK;
}

template <auto kFunction>
int failures_of() {
  Rig rig;
  auto info = sized<quire_model_info>();
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD,
                                                             &failures);
    Row<kFunction> call("quire_model_get_info");
    call(rig.model.get(), &info);
  }
  return failures.size();
}

TEST(Rows, NoticeFunctionsThatAcceptWhatIsWrong) {
  EXPECT_EQ(failures_of<&quire_model_get_info>(), 0);
  EXPECT_GT(failures_of<&accepts_everything>(), 20);
  EXPECT_GT(failures_of<&names_nothing>(), 10);
}

}  // namespace
}  // namespace quire::test
