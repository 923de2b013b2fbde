// A process that works on a shared store of the host connector until it is killed: host_worker NAME SEED. It writes one byte to its
// standard output when it begins. host_shared_test.cc starts it.
#include <unistd.h>

#include <cstdlib>

#include "tests/connectors/host_shared.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kLease = 5 * kMillisecond;

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  Client client(quire::shared_subject(), quire::shared_config(arguments[1]));
  if (!client.is_open()) return 1;
  if (write(1, "b", 1) != 1) return 1;
  Rng rng(std::strtoull(arguments[2], nullptr, 10));
  while (true) {
    // Small objects: most of the time is spent with the index. Large ones: with bytes.
    const uint64_t number = below(&rng, quire::kSharedKeys);
    const uint64_t dice = below(&rng, 10);
    if (dice < 4) {
      client.store(key(number), quire::shared_object(number));
    } else if (dice < 6) {
      Bytes out;
      client.load(key(number), 0, 1, &out);
    } else if (dice < 9) {
      client.sizes({key(number), key(number + 1), key(number + 2)}, below(&rng, 20) == 0 ? kLease : 0);
    } else {
      client.remove(key(number));
    }
  }
}
