/* DLPack both ways: the engine's buffer goes in, a layer's cache comes out as a view of the same
 * bytes. Nothing is copied. */
#include <inttypes.h>
#include <quire/quire.h>
#include <quire/sdk/dlpack.h> /* engines may have dlpack/dlpack.h 1.x instead */
#include <stdio.h>
#include <stdlib.h>

#define TRY(call) \
  if ((code = (call)) != QUIRE_OK) goto done

typedef struct DLManagedTensorVersioned dl_tensor;

static int failed(quire_code code, const quire_error* err) {
  const quire_str name = quire_code_name(code);
  if (code != QUIRE_OK) printf("%.*s: %s\n", (int)name.len, name.data, err->message);
  return code == QUIRE_OK ? 0 : 1;
}

static void buffer_returns(dl_tensor* self) {
  printf("%s is the engine's again\n", (const char*)self->owner);
  self->deleter = NULL;
}

static dl_tensor tensor_over(void* data, quire_dtype dtype, int32_t ndim, int64_t* shape,
                             int64_t* strides, const char* name) {
  dl_tensor tensor = {.major = 1, .owner = (void*)(uintptr_t)name, .deleter = buffer_returns};
  tensor.dl_tensor.data = data;
  tensor.dl_tensor.device_type = QUIRE_DEVICE_CPU;
  tensor.dl_tensor.ndim = ndim;
  tensor.dl_tensor.dtype = dtype;
  tensor.dl_tensor.shape = shape;
  tensor.dl_tensor.strides = strides;
  return tensor;
}

static quire_code story(quire_runtime* runtime, quire_config* config, dl_tensor* buffer,
                        dl_tensor* rows, quire_error* err) {
  quire_device* device = NULL;
  quire_memory* memory = NULL;
  quire_buffer* import = NULL;
  const quire_dlpack lent = {buffer, NULL}, read = {rows, NULL};
  const quire_export what = QUIRE_INIT(quire_export); /* all zero: the keys of layer 0 */
  quire_dlpack view = {0};
  dl_tensor* keys = NULL;
  quire_tensor query = {0};
  quire_code code = QUIRE_OK;
  TRY(quire_device_open(runtime, 0, &device, err));

  /* In: one dense tensor per region. From now on the memory owns it. */
  TRY(quire_memory_bind_dlpack(device, config, 0, &lent, 1, &memory, err));
  TRY(quire_memory_export(memory, &what, &view, err));
  keys = view.versioned;
  const int64_t *shape = keys->dl_tensor.shape, *stride = keys->dl_tensor.strides;
  printf("keys: [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "]", shape[0],
         shape[1], shape[2], shape[3], shape[4]);
  printf(" with strides %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", stride[0],
         stride[1], stride[2], stride[3], stride[4]);

  /* Out: a write through the view changes the engine's buffer. */
  float* element = (float*)((char*)keys->dl_tensor.data + keys->dl_tensor.byte_offset) +
                   2 * stride[0] + 5 * stride[2] + stride[3] + 7 * stride[4];
  *element = 1.5f;
  const int64_t at = (char*)element - (char*)buffer->dl_tensor.data;
  printf("key of page 2, token 5, head 1, item 7: byte %" PRId64 " of the buffer, %.1f\n", at,
         (double)*(float*)((char*)buffer->dl_tensor.data + at));

  /* In, for an op: rows of 16 elements, 20 elements apart, used in place. A read-only tensor must
   * be imported as read-only. */
  if (quire_buffer_import(device, &read, 0, &query, &import, err) == QUIRE_PERMISSION_DENIED)
    printf("PERMISSION_DENIED: %s\n", err->message);
  TRY(quire_buffer_import(device, &read, QUIRE_IMPORT_READ_ONLY, &query, &import, err));
  printf("query: strides %" PRId64 " %" PRId64 " %" PRId64 " bytes\n", query.stride[0],
         query.stride[1], query.stride[2]);
done:
  quire_buffer_release(import);
  quire_memory_release(memory);
  quire_device_release(device);
  printf("the memory is released, the view is not\n");
  if (keys != NULL) keys->deleter(keys);
  return code;
}

int main(void) {
  quire_runtime_options env = {.struct_size = sizeof env, .header_abi = QUIRE_ABI_VERSION};
  const quire_dtype fp32 = {QUIRE_DTYPE_FLOAT, 32, 1};
  quire_layer layer = QUIRE_INIT(quire_layer);
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = layer.num_q_heads = 2;
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype = fp32;
  quire_plan_options room = {.struct_size = sizeof room, .num_pages = 5};
  quire_region_info region = {.struct_size = sizeof region};
  quire_runtime* runtime = NULL;
  quire_model* model = NULL;
  quire_config* config = NULL;
  quire_error err = {.struct_size = sizeof err};
  uint64_t count = 0;
  quire_code code;
  if ((code = quire_runtime_create(&env, &runtime, &err)) ||
      (code = quire_model_create(&layer, sizeof layer, 1, 64, &model, &err)) ||
      (code = quire_config_create(model, &room, &config, &err)) ||
      (code = quire_config_list_regions(config, 0, &region, sizeof region, 1, &count, &err)))
    return failed(code, &err);
  printf("region: %" PRIu64 " bytes, aligned to %" PRIu64 "\n", region.bytes, region.alignment);
  float query[3][20] = {{0}};
  int64_t bytes = (int64_t)region.bytes, one = 1, shape[3] = {3, 2, 8}, strides[3] = {20, 8, 1};
  uint64_t whole = (region.bytes + region.alignment - 1) / region.alignment * region.alignment;
  void* data = aligned_alloc(region.alignment, whole);
  const quire_dtype byte = {QUIRE_DTYPE_UINT, 8, 1};
  dl_tensor buffer = tensor_over(data, byte, 1, &bytes, &one, "the buffer");
  dl_tensor rows = tensor_over(query, fp32, 3, shape, strides, "the query");
  rows.flags = QUIRE_DLPACK_READ_ONLY;
  code = story(runtime, config, &buffer, &rows, &err);
  free(data);
  quire_config_release(config), quire_model_release(model), quire_runtime_release(runtime);
  return failed(code, &err);
}
