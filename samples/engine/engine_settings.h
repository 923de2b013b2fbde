/* engine_settings.h: the value of --tier: which connector, and its settings as JSON. */
#ifndef ENGINE_SETTINGS_H_
#define ENGINE_SETTINGS_H_

#include <stdint.h>

#define MOST_TIERS 8

typedef struct tier_settings {
  char* name;   /* of the connector, owned */
  char* config; /* its settings, JSON, owned */
} tier_settings;

/* Reads "host:SIZE", "file:DIRECTORY:SIZE" or "NAME:{...}". A relative directory becomes an
 * absolute one. Complains and returns an exit code. */
int tier_settings_parse(tier_settings* settings, const char* text);
void tier_settings_free(tier_settings* settings);

#endif
