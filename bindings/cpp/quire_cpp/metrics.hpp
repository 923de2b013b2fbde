// quire_cpp/metrics.hpp: what is counted, as text for Prometheus. Include quire.hpp.
#pragma once

#include <quire/metrics.h>

#include "base.hpp"

namespace quire {
inline namespace QUIRE_CPP_MODE {

// The metrics of all sources as one text. Any thread. Errors: INVALID_ARGUMENT (labels).
inline Returned<std::string> write_metrics(std::span<const quire_metrics_source> sources, quire_metrics_format format) {
  return detail::write(quire_metrics_write, sources.data(), uint64_t{sources.size()}, format);
}

}  // namespace QUIRE_CPP_MODE
}  // namespace quire
