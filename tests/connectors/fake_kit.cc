// The kit and a store that tests program: sound it passes, so the kit asks for nothing that only one connector has. With a defect
// (QUIRE_FAKE_DEFECT) the kit must fail; fake_defects.sh runs it with each.
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "tests/connectors/kit.h"
#include "tests/fakes/fake_store.h"

using namespace quire::kit;  // NOLINT(google-build-using-namespace)
using quire::test::Damage;
using quire::test::Fate;
using quire::test::SeenTicket;

namespace {

// Every seventh ticket of a kind meets its fate.
std::function<void(const SeenTicket&, Fate*)> defect(const std::string& name) {
  const auto each = [](quire_ticket_kind kind, std::function<void(Fate*)> change) {
    return [kind, change, count = std::make_shared<int>(0)](const SeenTicket& seen, Fate* fate) {
      if (seen.ticket.kind == kind && ++*count % 7 == 0) change(fate);
    };
  };
  if (name == "flips") return each(QUIRE_TICKET_LOAD, [](Fate* fate) { fate->damage = Damage::kFlip; });
  if (name == "short-loads") return each(QUIRE_TICKET_LOAD, [](Fate* fate) { fate->damage = Damage::kShort; });
  if (name == "foreign") return each(QUIRE_TICKET_LOAD, [](Fate* fate) { fate->damage = Damage::kForeign; });
  if (name == "loses-stores") return each(QUIRE_TICKET_STORE, [](Fate* fate) { fate->damage = Damage::kLost; });
  if (name == "cuts-stores") return each(QUIRE_TICKET_STORE, [](Fate* fate) { fate->damage = Damage::kShort; });
  if (name == "never-ends") return each(QUIRE_TICKET_LOAD, [](Fate* fate) { fate->told = 0; });
  if (name == "fails") return each(QUIRE_TICKET_STORE, [](Fate* fate) { fate->code = QUIRE_UNAVAILABLE; });
  return {};
}

std::string config_of(uint64_t capacity, const std::string& place) {
  static std::mutex lock;
  static std::map<std::string, std::unique_ptr<quire::test::FakeStore>> stores;
  const std::lock_guard<std::mutex> guard(lock);
  auto& store = stores[place];
  if (store == nullptr) {
    quire::test::FakeStoreOptions options;
    options.flags = QUIRE_CONNECTOR_RANGES | QUIRE_CONNECTOR_PERSISTENT;
    options.capacity_bytes = capacity;
    options.evicts = true;
    options.reorders = true;
    options.waits = true;
    store = std::make_unique<quire::test::FakeStore>(options);
    const char* name = std::getenv("QUIRE_FAKE_DEFECT");  // NOLINT(concurrency-mt-unsafe)
    if (name != nullptr) store->set_script(defect(name));
  }
  return store->config();
}

Subject fake() {
  static const bool kRegistered = [] {
    Error err;
    return quire_register_connector(quire::test::fake_store_query, &err) == QUIRE_OK;
  }();
  Subject subject;
  subject.name = "sound";
  subject.connector = kRegistered ? "fake_store" : "";
  subject.instant = true;
  subject.config = config_of;
  return subject;
}

INSTANTIATE_TEST_SUITE_P(Fake, ConnectorKit, testing::Values(fake()), name_of);

}  // namespace
