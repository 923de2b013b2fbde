/* fakes_one FOLDER MODULES: opens the driver "fake" of FOLDER and uses it, all through the C ABI; then opens the null driver of MODULES,
 * since the process has to go on. Prints the code and message of the first failure, and says whether the null driver worked. */
#include <quire/quire.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static quire_str text(const char* from) {
  quire_str str;
  str.data = from;
  str.len = strlen(from);
  return str;
}

static quire_code use(const char* driver, const char* folder, quire_error* err) {
  quire_runtime_options options;
  quire_runtime* runtime = NULL;
  quire_device* device = NULL;
  quire_device_info info;
  quire_stream* stream = NULL;
  quire_buffer* buffer = NULL;
  quire_tensor tensor;
  quire_code code;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.header_abi = QUIRE_ABI_VERSION;
  options.driver = text(driver);
  options.driver_path = text(folder);
  options.flags = QUIRE_RUNTIME_NO_ENV;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  memset(&tensor, 0, sizeof tensor);
  tensor.dtype.code = QUIRE_DTYPE_UINT;
  tensor.dtype.bits = 8;
  tensor.ndim = 1;
  tensor.shape[0] = 1000;
  code = quire_runtime_create(&options, &runtime, err);
  if (code == QUIRE_OK) code = quire_device_open(runtime, 0, &device, err);
  if (code == QUIRE_OK) code = quire_device_get_info(device, &info, err);
  if (code == QUIRE_OK && (info.struct_size != sizeof info || memchr(info.name, 0, sizeof info.name) == NULL)) code = QUIRE_INTERNAL;
  if (code == QUIRE_OK) code = quire_stream_create(device, 0, &stream, err);
  if (code == QUIRE_OK) code = quire_buffer_create(device, &tensor, &buffer, err);
  if (code == QUIRE_OK) code = quire_op_fill(stream, tensor.data, 1, 1000, err);
  if (code == QUIRE_OK) code = quire_stream_synchronize(stream, -1, err);
  quire_buffer_release(buffer);
  quire_stream_release(stream);
  quire_device_release(device);
  quire_runtime_release(runtime);
  return code;
}

int main(int argc, char** argv) {
  quire_error err;
  quire_error null_err;
  quire_code code;
  if (argc != 3) return 2;
  memset(&err, 0, sizeof err);
  err.struct_size = sizeof err;
  null_err = err;
  alarm(5); /* what hangs is ended from outside */
  code = use("fake", argv[1], &err);
  printf("%s %s\n", quire_code_name(code).data, err.message);
  code = use("null", argv[2], &null_err);
  printf("then %s %s\n", quire_code_name(code).data, null_err.message);
  return 0;
}
