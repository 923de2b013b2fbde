// Rows of quire/driver.h.
#include "rows.h"

namespace quire::test {
namespace {

quire_code answers_nothing(const quire_query*, const quire_manifest**, quire_error*) { return QUIRE_OK; }

ROW(quire_register_driver) {
  call.answers(QUIRE_INCOMPATIBLE_ABI);  // good ones: boundary_test.cc
  call(static_cast<quire_module_query_fn>(&answers_nothing));
}

}  // namespace
}  // namespace quire::test
