// Where tickets end: what works on them says so here.
#pragma once

#include "plugins/ucx/ucx_tickets.h"

namespace quire::ucx {

class Finish {
 public:
  virtual ~Finish() = default;
  // Once for each ticket, when nothing touches its bytes any more.
  virtual void finish(const TicketRef& ticket, quire_completion completion) = 0;

  void finish(const TicketRef& ticket, quire_code code) {
    quire_completion completion = {};
    completion.code = code;
    finish(ticket, completion);
  }
};

}  // namespace quire::ucx
