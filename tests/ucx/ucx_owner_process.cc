// A process with objects that others read: CONFIG COUNT BYTES.
#include <cstdlib>

#include "ucx_rig.h"

int main(int count, char** words) {
  if (count != 4) return 2;
  return quire::kit::own_objects(words[1], std::strtoull(words[2], nullptr, 10), std::strtoull(words[3], nullptr, 10));
}
