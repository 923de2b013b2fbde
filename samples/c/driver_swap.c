/* One program for any driver. QUIRE_DRIVER names it: cpu, null, ... */
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>

#define TRY(call)                            \
  do {                                       \
    quire_code failure = (call);             \
    if (failure != QUIRE_OK) return failure; \
  } while (0)

static quire_tensor fp32(void* data, int32_t ndim) { /* [1 token, 1 head(, 4)] */
  const quire_dtype dtype = {QUIRE_DTYPE_FLOAT, 32, 1};
  quire_tensor tensor = {.data = data, .dtype = dtype, .ndim = ndim};
  tensor.shape[0] = tensor.shape[1] = 1;
  tensor.shape[2] = 4;
  tensor.stride[0] = tensor.stride[1] = 16;
  tensor.stride[2] = 4;
  return tensor;
}

/* Every driver has memory, fills and copies. */
static quire_code bytes_story(quire_device* device, quire_stream* stream, quire_buffer** buffer,
                              quire_error* err) {
  quire_tensor tensor = {.dtype = {QUIRE_DTYPE_UINT, 8, 1}, .ndim = 2, .shape = {3, 5}};
  unsigned char all[15] = {0};
  quire_copy_run run = {.destination = (uint64_t)(uintptr_t)all, .bytes = sizeof all};
  unsigned sum = 0;
  TRY(quire_buffer_create(device, &tensor, buffer, err));
  TRY(quire_op_fill(stream, tensor.data, 7, sizeof all, err));
  run.source = (uint64_t)(uintptr_t)tensor.data;
  TRY(quire_op_copy(stream, &run, 1, err));
  TRY(quire_stream_synchronize(stream, -1, err));
  for (size_t i = 0; i < sizeof all; ++i) sum += all[i];
  printf("tensor [3, 5] filled with 7 and copied: sum %u\n", sum);
  return QUIRE_OK;
}

/* A kernel: two partial results of attention become one. The null driver has none. */
static quire_code kernel_story(quire_stream* stream, quire_error* err) {
  float part[2][4] = {{1, 2, 3, 4}, {3, 4, 5, 6}};
  float lse[2] = {0.5f, 0.5f};
  float out[4] = {0};
  quire_tensor parts[2] = {fp32(part[0], 3), fp32(part[1], 3)};
  quire_tensor weights[2] = {fp32(&lse[0], 2), fp32(&lse[1], 2)};
  quire_attention_merge merge = QUIRE_INIT(quire_attention_merge);
  merge.num_parts = 2;
  merge.partial_out = parts;
  merge.partial_lse = weights;
  merge.out = fp32(out, 3);
  TRY(quire_op_attention_merge(stream, &merge, err));
  TRY(quire_stream_synchronize(stream, -1, err));
  printf("merged with equal weights: %.1f %.1f %.1f %.1f\n", (double)out[0], (double)out[1],
         (double)out[2], (double)out[3]);
  return QUIRE_OK;
}

static quire_code story(quire_runtime** runtime, quire_device** device, quire_stream** stream,
                        quire_buffer** buffer, quire_error* err) {
  quire_runtime_options env = {.struct_size = sizeof env, .header_abi = QUIRE_ABI_VERSION};
  quire_device_info info = {.struct_size = sizeof info};
  TRY(quire_runtime_create(&env, runtime, err)); /* reads QUIRE_DRIVER unless env.driver is set */
  TRY(quire_device_open(*runtime, 0, device, err));
  TRY(quire_device_get_info(*device, &info, err));
  printf("driver %s\n", info.driver);
  TRY(quire_stream_create(*device, 0, stream, err));
  TRY(bytes_story(*device, *stream, buffer, err));
  return kernel_story(*stream, err);
}

int main(void) {
  quire_runtime* runtime = NULL;
  quire_device* device = NULL;
  quire_stream* stream = NULL;
  quire_buffer* buffer = NULL;
  quire_error err = {.struct_size = sizeof err};
  const quire_code code = story(&runtime, &device, &stream, &buffer, &err);
  const quire_str name = quire_code_name(code);
  if (code != QUIRE_OK) printf("%.*s: %s\n", (int)name.len, name.data, err.message);
  quire_buffer_release(buffer);
  quire_stream_release(stream);
  quire_device_release(device);
  quire_runtime_release(runtime);
  return code == QUIRE_OK ? 0 : 1;
}
