// quire_events_encode: what an encoding says besides the events stands in each of them. The bytes themselves are compared in tests/golden.
#include <quire/events.h>

#include <array>
#include <string>
#include <vector>

#include "api_rig.h"

namespace quire::test {
namespace {

// A REMOVED event of one block, whose digest is the data.
std::string encoded(const quire_event_encoding& encoding) {
  const std::array<uint8_t, 16> digest{1, 2, 3};
  auto event = quire_event{};
  event.type = QUIRE_EVENT_REMOVED;
  event.num_hashes = 1;
  event.hash_bytes = digest.size();
  quire_error error = QUIRE_INIT(quire_error);
  uint64_t count = 0;
  std::vector<uint8_t> bytes(1000);
  EXPECT_EQ(quire_events_encode(&event, 1, digest.data(), digest.size(), &encoding, bytes.data(), bytes.size(), &count, &error), QUIRE_OK)
      << error.message;
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

bool has(const std::string& bytes, const std::string& part) { return bytes.find(part) != std::string::npos; }

TEST(EventCalls, EncodedEventsHaveTheirMediumAndLocality) {
  quire_event_encoding encoding = QUIRE_INIT(quire_event_encoding);
  encoding.time = 5;
  encoding.rank = -1;
  std::string bytes = encoded(encoding);
  EXPECT_TRUE(has(bytes, "\xa6medium\xa3GPU")) << bytes;
  EXPECT_FALSE(has(bytes, "locality")) << bytes;
  EXPECT_EQ(bytes.back(), '\xc0') << "no rank";
  encoding.medium = text("SSD");
  encoding.locality = text("REMOTE");
  encoding.rank = 3;
  bytes = encoded(encoding);
  EXPECT_TRUE(has(bytes, "\xa6medium\xa3SSD")) << bytes;
  EXPECT_TRUE(has(bytes, "\xa8locality\xa6REMOTE")) << bytes;
  EXPECT_EQ(bytes.back(), '\x03');
}

}  // namespace
}  // namespace quire::test
