// The table of tickets against std::map, in small tables where probes collide and wrap around.
#include "core/connector/ticket_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quire {
namespace {

TEST(TicketTable, EqualsAMap) {
  std::mt19937_64 random(3);
  for (const uint32_t capacity : {1U, 2U, 3U, 7U, 64U, 1000U}) {
    TicketTable table(capacity);
    std::map<uint64_t, uint64_t> model;
    for (int i = 0; i < 20'000; ++i) {
      const uint64_t number = random() % (2 * capacity + 2) * (random() % 2 == 0 ? 1 : uint64_t{1} << 58);
      TicketEntry* const found = table.find(number);
      ASSERT_EQ(found != nullptr, model.count(number) != 0);
      if (found != nullptr) {
        ASSERT_EQ(found->ticket, number);
        ASSERT_EQ(found->bytes, model[number]);
        table.erase(found);
        model.erase(number);
      } else if (table.room() != 0) {
        TicketEntry entry;
        entry.ticket = number;
        entry.bytes = static_cast<uint64_t>(i);
        entry.kind = QUIRE_TICKET_LOAD;
        ASSERT_TRUE(table.insert(entry));
        ASSERT_FALSE(table.insert(entry));
        model[number] = entry.bytes;
      }
      ASSERT_EQ(table.size(), model.size());
      ASSERT_EQ(table.room(), capacity - model.size());
    }
    for (const auto& [number, bytes] : model) {
      ASSERT_NE(table.find(number), nullptr);
      ASSERT_EQ(table.find(number)->bytes, bytes);
    }
  }
}

TEST(TicketTable, OfNoTicketHasNoRoom) {
  TicketTable table;
  EXPECT_EQ(table.room(), 0U);
  EXPECT_EQ(table.find(0), nullptr);
}

}  // namespace
}  // namespace quire
