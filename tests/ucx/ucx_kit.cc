// The ucx connector and the kit: copies of one instance, which serves or does not.
#include "tests/connectors/kit.h"

using quire::kit::Subject;

namespace {

// Each object counts 512 bytes more than it has.
Subject ucx(const std::string& name, const std::string& fields) {
  Subject subject;
  subject.name = name;
  subject.connector = "ucx";
  subject.config = [=](uint64_t capacity, const std::string& /*place*/) {
    return "{\"trusted\": true, \"copies\": " + std::to_string(capacity + capacity / 2) + fields + "}";
  };
  subject.lists = false;
  subject.plain_key_bytes = 32;
  return subject;
}

INSTANTIATE_TEST_SUITE_P(Ucx, ConnectorKit,
                         testing::Values(ucx("alone", ", \"same_host\": \"off\""), ucx("serving", ", \"listen\": \"127.0.0.1:0\"")),
                         quire::kit::name_of);

}  // namespace
