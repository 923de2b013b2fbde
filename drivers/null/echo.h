/* The extension ops of the null driver: they give their arguments back, so that callers can try every type and place. */
#ifndef QUIRE_DRIVERS_NULL_ECHO_H_
#define QUIRE_DRIVERS_NULL_ECHO_H_

#include <quire/extension.h>

extern const quire_extension_table null_ops;

#endif /* QUIRE_DRIVERS_NULL_ECHO_H_ */
