/* own_engine FOLDER: opens the driver "own" from FOLDER, fills a tensor through it and calls its
 * op. */
#include <quire/quire.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static quire_str text(const char* from) {
  quire_str str;
  str.data = from;
  str.len = strlen(from);
  return str;
}

#define TRY(call) \
  if ((call) != QUIRE_OK) goto done

int main(int argc, char** argv) {
  char folder[4096];
  quire_error err = {.struct_size = sizeof err};
  quire_runtime_options options = {
      .struct_size = sizeof options, .header_abi = QUIRE_ABI_VERSION, .driver = {"own", 3}};
  quire_runtime* runtime = NULL;
  quire_device* device = NULL;
  quire_stream* stream = NULL;
  quire_buffer* buffer = NULL;
  quire_extension* op = NULL;
  quire_device_info info = {.struct_size = sizeof info};
  quire_tensor tensor = {.dtype = {QUIRE_DTYPE_UINT, 8, 1}, .ndim = 2, .shape = {3, 5}};
  quire_value args[3] = {{QUIRE_VALUE_F64, 0, 0}, {QUIRE_VALUE_F64, 0, 0}, {QUIRE_VALUE_F32, 0, 0}};
  quire_value result;
  const double numbers[2] = {10, 20};
  const float share = 0.25f;
  double answer = 0;
  options.flags = QUIRE_RUNTIME_NO_ENV;
  if (argc != 2 || realpath(argv[1], folder) == NULL) return 2;
  options.driver_path = text(folder);
  TRY(quire_runtime_create(&options, &runtime, &err));
  TRY(quire_device_open(runtime, 0, &device, &err));
  TRY(quire_device_get_info(device, &info, &err));
  TRY(quire_stream_create(device, 0, &stream, &err));
  TRY(quire_buffer_create(device, &tensor, &buffer, &err));
  TRY(quire_op_fill(stream, tensor.data, 7, 15, &err));
  TRY(quire_stream_synchronize(stream, -1, &err));
  TRY(quire_extension_find(runtime, text(""), text("own.blend"), 1, 0, &op, &err));
  memcpy(&args[0].bits, &numbers[0], 8);
  memcpy(&args[1].bits, &numbers[1], 8);
  memcpy(&args[2].bits, &share, 4);
  TRY(quire_extension_call(op, args, 3, &result, &err));
  memcpy(&answer, &result.bits, 8);
  printf("driver %s: %s\n", info.driver, info.name);
  printf("tensor [3, 5], last byte %d\n", ((unsigned char*)tensor.data)[14]);
  printf("own.blend(10, 20, 0.25) = %g\n", answer);
done:
  if (err.code != QUIRE_OK) fprintf(stderr, "%s: %s\n", err.source, err.message);
  quire_extension_release(op);
  quire_buffer_release(buffer);
  quire_stream_release(stream);
  quire_device_release(device);
  quire_runtime_release(runtime);
  return err.code == QUIRE_OK ? 0 : 1;
}
