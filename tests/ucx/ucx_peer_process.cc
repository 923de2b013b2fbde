// A process with objects that others read, or one that reads them: own CONFIG COUNT BYTES WAY, or
// read ADDRESS COUNT BYTES WAY.
#include <cstdlib>
#include <string>

#include "ucx_rig.h"

int main(int count, char** words) {
  if (count != 6) return 2;
  quire::kit::same_host() = words[5];
  const uint64_t objects = std::strtoull(words[3], nullptr, 10), bytes = std::strtoull(words[4], nullptr, 10);
  if (std::string(words[1]) == "own") return quire::kit::own_objects(words[2], objects, bytes);
  return quire::kit::read_objects(words[2], objects, bytes);
}
