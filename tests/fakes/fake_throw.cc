// What no module may do.
#include <stdexcept>

extern "C" void fake_throw() { throw std::runtime_error("thrown by a driver"); }
