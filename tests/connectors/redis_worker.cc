// A process that works on a server until it is killed: redis_worker SOCKET SEED. It writes one byte to its standard output when it begins.
// redis_shards_test.cc starts it.
#include <unistd.h>

#include <cstdlib>

#include "redis_worker.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

int main(int count, char** arguments) {
  if (count != 3) return 2;
  Subject subject;
  subject.connector = "redis";
  Client client(subject, "{\"servers\": \"" + std::string(arguments[1]) + "\"}");
  if (!client.is_open()) return 1;
  if (write(1, "b", 1) != 1) return 1;
  Rng rng(std::strtoull(arguments[2], nullptr, 10));
  while (true) {
    const uint64_t number = below(&rng, quire::kRedisKeys);
    const uint64_t dice = below(&rng, 10);
    if (dice < 6) {
      client.store(key(number), quire::redis_object(number));
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
