// A process that works on a server until it is killed: redis_worker SOCKET SEED. It writes one byte to its standard output when it begins.
// redis_shards_test.cc starts it.
#include <cstdlib>

#include "worker_process.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)

int main(int count, char** arguments) {
  if (count != 3) return 2;
  Subject subject;
  subject.connector = "redis";
  Client client(subject, "{\"servers\": \"" + std::string(arguments[1]) + "\"}");
  return work(client, std::strtoull(arguments[2], nullptr, 10));
}
