// A publisher for programs in other languages. It prints its two endpoints, then obeys lines:
//   subscribed N   waits for so many subscriptions       steps SEED N   random operations of an engine, followed
//   tiers          events of other media, with adapters left out          index          prints blocks as the cache knows them, in JSON
// Each is answered by one line. It ends with its input.
#include <iostream>
#include <sstream>

#include "zmq_rig.h"

using namespace quire::wire;  // NOLINT(google-build-using-namespace)

namespace {

void publish_tiers(const Publisher& publisher) {
  for (const auto& [medium, locality] : {std::pair("CPU", "LOCAL"), std::pair("STORAGE", "REMOTE"), std::pair("GPU", "")}) {
    MadeEvents events;
    events.store(1, {1, 2, 3, 4}, 1);
    events.remove(1, 1);
    quire_event_message message = events.message();
    message.medium = str(medium);
    message.locality = str(locality);
    if (quire_event_publisher_publish(publisher.get(), &message, nullptr) != QUIRE_OK) std::abort();
  }
}

json listed(const Index& index) {
  json blocks = json::array();
  for (const auto& [name, tokens] : index) blocks.push_back({name.first, name.second, tokens});
  return blocks;
}

}  // namespace

int main() {
  quire_event_publisher_options options = Publisher::options();
  options.topic = str("kv-events");
  const Publisher publisher(options);
  Engine engine;
  std::cout << publisher.endpoint() << ' ' << publisher.replay_endpoint() << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    uint64_t first = 0, second = 0;
    words >> command >> first >> second;
    if (command == "subscribed") {
      std::cout << becomes_true([&] { return publisher.stats().subscriptions >= first; }) << std::endl;
    } else if (command == "steps") {
      std::mt19937_64 random(first);
      for (uint64_t i = 0; i < second; ++i) engine.step(&random), publisher.follow(engine.cache());
      std::cout << publisher.stats().next_number << std::endl;
    } else if (command == "tiers") {
      publish_tiers(publisher);
      std::cout << publisher.stats().next_number << std::endl;
    } else if (command == "index") {
      std::cout << listed(engine.index()).dump() << std::endl;
    } else {
      return 2;
    }
  }
  return 0;
}
