// A process that works on a store of the fake library until it is killed: mooncake_worker DIRECTORY SEED. It writes one byte to its
// standard output when it begins. processes_test.cc starts it.
#include "worker.h"

#include <unistd.h>

#include <cstdlib>

#include "rig.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

int main(int count, char** arguments) {
  if (count != 3) return 2;
  Client client(quire::test::mooncake_subject(), quire::test::mooncake_config(arguments[1]));
  if (!client.is_open()) return 1;
  if (write(1, "b", 1) != 1) return 1;
  Rng rng(std::strtoull(arguments[2], nullptr, 10));
  while (true) {
    const uint64_t number = below(&rng, quire::test::kWorkerKeys);
    const uint64_t dice = below(&rng, 10);
    if (dice < 6) {
      client.store(key(number), quire::test::worker_object(number));
    } else if (dice < 8) {
      Bytes out;
      client.load(key(number), 0, 1, &out);
    } else if (dice < 9) {
      client.sizes({key(number), key(number + 1), key(number + 2)});
    } else {
      client.remove(key(number));
    }
  }
}
