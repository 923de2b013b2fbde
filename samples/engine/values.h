/* values.h: everything the model would compute from weights, computed from a hash instead.
 *
 * h(p) is a hash of the salt and of all symbols up to position p. Keys, values, queries, gates and
 * the next symbol are functions of h(p), the layer, the head and the element: reading a wrong
 * block, in a wrong order or under a wrong salt gives other numbers. Elements are multiples of 1/64
 * in (-2, 2), exact in bf16, fp16 and fp32, so that storing them loses nothing.
 */
#ifndef ENGINE_VALUES_H_
#define ENGINE_VALUES_H_

#include <quire/base.h>
#include <stdint.h>

enum value_role {
  VALUE_QUERY = 1,
  VALUE_KEY,
  VALUE_VALUE,
  VALUE_CONV,
  VALUE_GATE,
  VALUE_BETA,
  VALUE_WEIGHT,
  VALUE_SINK
};

#define VOCABULARY 32000u

/* A bijective scramble of 64 bits. */
uint64_t mix64(uint64_t x);
/* h of the empty prefix under a salt. */
uint64_t prefix_root(uint32_t salt);
/* h after one more symbol. */
uint64_t prefix_step(uint64_t h, uint32_t symbol);
/* What the model "samples" after the prefix h; `sample` tells apart the samples of one request. */
uint32_t next_symbol(uint64_t h, uint32_t sample);
/* Seed of the elements of one head. */
uint64_t value_seed(uint64_t h, uint32_t layer, enum value_role role, uint32_t head);
/* n elements of a head as float. */
void values_float(uint64_t seed, float* out, uint32_t n);
/* The same stored as dtype (bf16, fp16, fp32). */
void values_store(uint64_t seed, quire_dtype dtype, void* out, uint32_t n);
/* A number in [0, 1). */
float value_unit(uint64_t seed);
/* g in (-0.03, 0] and beta in [0.2, 0.8): states neither vanish nor explode. */
float value_gate(uint64_t h, uint32_t layer, uint32_t head);
float value_beta(uint64_t h, uint32_t layer, uint32_t head);
/* Seed of a channel's taps in a short convolution, and the sink logit of a query head: parameters,
 * the same for all tokens. */
uint64_t value_weight_seed(uint32_t layer, uint32_t channel);
float value_sink(uint32_t layer, uint32_t head);
/* Bytes of an element; 0 = a dtype this program does not write. */
uint32_t dtype_bytes(quire_dtype dtype);
/* One stored element as float. */
float load_element(const void* at, quire_dtype dtype);

#endif
