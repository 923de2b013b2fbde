// A process that works on a store of the fake library until it is killed: mooncake_worker DIRECTORY SEED. It writes one byte to its
// standard output when it begins. processes_test.cc starts it.
#include <cstdlib>

#include "mooncake_rig.h"
#include "tests/connectors/worker_process.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

int main(int count, char** arguments) {
  if (count != 3) return 2;
  Client client(quire::test::mooncake_subject(), quire::test::mooncake_config(arguments[1]));
  return work(client, std::strtoull(arguments[2], nullptr, 10));
}
