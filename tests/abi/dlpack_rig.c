/* A rig for consumers of DLPack in other languages: one float32 or float16 layer on the driver of a folder, its bytes counted up, exported
 * once. rig_export gives the tensor; rig_close releases everything but the tensor, which must go on working. */
#include <quire/quire.h>
#include <stdint.h>
#include <string.h>

struct DLManagedTensor* rig_export(const char* folder, const char* layout, uint32_t bits, uint32_t side);
void rig_close(void);

static quire_runtime* runtime;
static quire_model* model;
static quire_config* config;
static quire_device* device;
static quire_memory* memory;

static quire_str text(const char* from) {
  quire_str str;
  str.data = from;
  str.len = strlen(from);
  return str;
}

void rig_close(void) {
  quire_memory_release(memory);
  quire_device_release(device);
  quire_config_release(config);
  quire_model_release(model);
  quire_runtime_release(runtime);
  memory = NULL;
  device = NULL;
  config = NULL;
  model = NULL;
  runtime = NULL;
}

struct DLManagedTensor* rig_export(const char* folder, const char* layout, uint32_t bits, uint32_t side) {
  quire_runtime_options options;
  quire_layer layer;
  quire_plan_options plan;
  quire_tensor tensor;
  quire_export what = QUIRE_INIT(quire_export);
  quire_dlpack exported = {NULL, NULL};
  int64_t at[5];
  uint32_t count = 0;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = text("null");
  options.driver_path = text(folder);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  memset(&layer, 0, sizeof layer);
  layer.struct_size = sizeof layer;
  layer.kind = QUIRE_LAYER_FULL;
  layer.num_kv_heads = layer.num_q_heads = 2;
  layer.head_dim_k = layer.head_dim_v = 8;
  layer.dtype.code = bits == 116 ? QUIRE_DTYPE_BFLOAT : QUIRE_DTYPE_FLOAT;
  layer.dtype.bits = (uint8_t)(bits % 100);
  layer.dtype.lanes = 1;
  memset(&plan, 0, sizeof plan);
  plan.struct_size = sizeof plan;
  plan.num_pages = 4;
  plan.policy = text("vllm"); /* the others know no order whose outermost letter is L */
  plan.layout = text(layout);
  what.item = side;
  if (quire_runtime_create(&options, &runtime, NULL) != QUIRE_OK ||
      quire_model_create(&layer, sizeof layer, 1, 32, &model, NULL) != QUIRE_OK ||
      quire_config_create(model, &plan, &config, NULL) != QUIRE_OK || quire_device_open(runtime, 0, &device, NULL) != QUIRE_OK ||
      quire_memory_create(device, config, 0, &memory, NULL) != QUIRE_OK ||
      quire_memory_get_tensor(memory, &what, &tensor, NULL) != QUIRE_OK || tensor.ndim != 5) {
    rig_close();
    return NULL;
  }
  /* Element number n in row-major order holds n. */
  for (at[0] = 0; at[0] < tensor.shape[0]; ++at[0])
    for (at[1] = 0; at[1] < tensor.shape[1]; ++at[1])
      for (at[2] = 0; at[2] < tensor.shape[2]; ++at[2])
        for (at[3] = 0; at[3] < tensor.shape[3]; ++at[3])
          for (at[4] = 0; at[4] < tensor.shape[4]; ++at[4], ++count) {
            int64_t offset = 0;
            int d;
            const float single = (float)count;
            const uint16_t half = (uint16_t)count;
            for (d = 0; d < 5; ++d) offset += at[d] * tensor.stride[d];
            if (layer.dtype.bits == 32) memcpy((char*)tensor.data + offset, &single, 4);
            if (layer.dtype.bits == 16) memcpy((char*)tensor.data + offset, &half, 2);
          }
  what.flags = QUIRE_EXPORT_LEGACY;
  if (quire_memory_export(memory, &what, &exported, NULL) != QUIRE_OK) rig_close();
  return exported.legacy;
}
