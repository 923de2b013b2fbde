// The connector "spared_store": the fake store, of whose allocations none fails. Its bytes live in
// the test's own process, so failing allocations would be the test's fault.
#pragma once

#include <quire/connector.h>

namespace quire::test {

quire_code spared_store_query(const quire_query* query, const quire_manifest** out, quire_error* err);

}  // namespace quire::test
