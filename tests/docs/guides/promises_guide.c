/* Runs the code of docs/abi-promises.md. */
#include <stdio.h>
#include <string.h>

/* The page declares only what it calls. */
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#endif
#include "abi_promises_c.inc"

#define EXPECT(condition)                                                                    \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      (void)printf("%s:%d: %s is false: %s\n", __FILE__, __LINE__, #condition, err.message); \
      return 1;                                                                              \
    }                                                                                        \
  } while (0)

int main(void) {
  quire_error err = {.struct_size = sizeof err};
  quire_layer layer = {.struct_size = sizeof layer, .kind = QUIRE_LAYER_FULL, .num_kv_heads = 2, .num_q_heads = 2};
  quire_model* model = NULL;
  quire_config* config = NULL;
  uint64_t pages = 0;
  uint64_t bytes = 0;
  char text[600];
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype = (quire_dtype){QUIRE_DTYPE_FLOAT, 32, 1};
  EXPECT(fits());
  EXPECT(quire_model_create(&layer, sizeof layer, 1, 64, &model, &err) == QUIRE_OK);
  EXPECT(plan_of(model, &config, &err) == QUIRE_OK);
  EXPECT(pages_of(config, &pages, &err) == QUIRE_OK && pages == 64);
  EXPECT(bytes_of(config, 0, &bytes, &err) == QUIRE_OK && bytes == UINT64_C(64) * 2 * 16 * 2 * 8 * 4);
  EXPECT(bytes_of(config, 3, &bytes, &err) == QUIRE_OUT_OF_RANGE && bytes == 0);
  EXPECT(explain(&err, text, sizeof text) > 14 && strncmp(text, "OUT_OF_RANGE: ", 14) == 0 && strchr(text, '3') != NULL);
  quire_config_release(config);
  quire_model_release(model);
  return 0;
}
