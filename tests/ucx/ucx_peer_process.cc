// A process with objects that others read, or one that reads them: own CONFIG COUNT BYTES, or
// read ADDRESS COUNT BYTES.
#include <cstdlib>
#include <string>

#include "ucx_rig.h"

int main(int count, char** words) {
  if (count != 5) return 2;
  const uint64_t objects = std::strtoull(words[3], nullptr, 10), bytes = std::strtoull(words[4], nullptr, 10);
  if (std::string(words[1]) == "own") return quire::kit::own_objects(words[2], objects, bytes);
  return quire::kit::read_objects(words[2], objects, bytes);
}
