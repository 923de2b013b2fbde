/* A library that has all functions of Mooncake's but one. */
#define HAS(name)                                         \
  __attribute__((visibility("default"))) void name(void); \
  void name(void) {}
HAS(mooncake_store_create)
HAS(mooncake_store_destroy)
HAS(mooncake_store_setup)
HAS(mooncake_store_register_buffer)
HAS(mooncake_store_put_from)
HAS(mooncake_store_get_into)
HAS(mooncake_store_is_exist)
HAS(mooncake_store_batch_is_exist)
HAS(mooncake_store_get_size)
