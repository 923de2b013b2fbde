#include "engine_settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine_text.h"

static int bad_tier(const char* text, const char* wrong) {
  (void)complain("--tier %s: %s", text, wrong);
  return ENGINE_USAGE;
}

/* Appends text as the inside of a JSON string; returns the new end. */
static char* put_escaped(char* to, const char* text, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\') *to++ = '\\';
    if (c < 0x20) {
      to += snprintf(to, 7, "\\u%04x", c);
    } else {
      *to++ = (char)c;
    }
  }
  return to;
}

/* {"directory": "...", "bytes": "..."}; without a directory only the bytes. */
static int write_config(tier_settings* s, const char* parent, const char* directory, size_t length,
                        const char* bytes) {
  size_t most = 6 * (strlen(parent) + length + strlen(bytes)) + 64;
  s->config = claim_memory(most, 1, "the settings of a tier");
  if (s->config == NULL) return ENGINE_FAILED;
  char* to = stpcpy(s->config, "{");
  if (length != 0) {
    to = put_escaped(stpcpy(to, "\"directory\": \""), parent, strlen(parent));
    if (parent[0] != '\0') *to++ = '/';
    to = stpcpy(put_escaped(to, directory, length), "\", ");
  }
  to = put_escaped(stpcpy(to, "\"bytes\": \""), bytes, strlen(bytes));
  (void)stpcpy(to, "\"}");
  return ENGINE_OK;
}

static int write_file_config(tier_settings* s, const char* text, const char* settings) {
  const char* colon = strrchr(settings, ':');
  char parent[PATH_MAX] = "";
  if (colon == NULL || colon == settings || colon[1] == '\0')
    return bad_tier(text, "a directory and a size are needed: file:DIRECTORY:1GiB");
  if (settings[0] != '/' && getcwd(parent, sizeof parent) == NULL)
    return complain("--tier %s: current directory: %s", text, strerror(errno));
  return write_config(s, parent, settings, (size_t)(colon - settings), colon + 1);
}

int tier_settings_parse(tier_settings* s, const char* text) {
  const char* settings = strchr(text, ':');
  memset(s, 0, sizeof *s);
  if (settings == NULL || settings == text || settings[1] == '\0')
    return bad_tier(text, "NAME:SETTINGS is needed, as host:256MiB or file:DIRECTORY:1GiB");
  size_t n = (size_t)(settings - text);
  s->name = claim_memory(n + 1, 1, "the name of a tier");
  if (s->name == NULL) return ENGINE_FAILED;
  memcpy(s->name, text, n);
  ++settings;
  if (settings[0] == '{') {
    s->config = claim_memory(strlen(settings) + 1, 1, "the settings of a tier");
    if (s->config == NULL) return ENGINE_FAILED;
    memcpy(s->config, settings, strlen(settings));
    return ENGINE_OK;
  }
  if (strcmp(s->name, "host") == 0) return write_config(s, "", "", 0, settings);
  if (strcmp(s->name, "file") == 0) return write_file_config(s, text, settings);
  return bad_tier(text, "settings of this connector are JSON, as NAME:{\"bytes\": \"1GiB\"}");
}

void tier_settings_free(tier_settings* s) {
  free(s->name);
  free(s->config);
  memset(s, 0, sizeof *s);
}
