/* quire/quire.h: everything an engine needs, tiers, sessions and metrics included. Authors of
 * drivers and connectors include quire/driver.h or quire/connector.h instead. */
#ifndef QUIRE_QUIRE_H_
#define QUIRE_QUIRE_H_

#include <quire/base.h>
#include <quire/cache.h>
#include <quire/config.h>
#include <quire/events.h>
#include <quire/extension.h>
#include <quire/hold.h>
#include <quire/load.h>
#include <quire/memory.h>
#include <quire/metrics.h>
#include <quire/model.h>
#include <quire/ops.h>
#include <quire/pin.h>
#include <quire/session.h>
#include <quire/step.h>
#include <quire/tier.h>

#endif /* QUIRE_QUIRE_H_ */
