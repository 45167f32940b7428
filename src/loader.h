/* Opens modules: shared objects named dsconv_NAME.so beside the library. */
#ifndef DSCONV_SRC_LOADER_H
#define DSCONV_SRC_LOADER_H

#include <stdbool.h>

#include "dsconv/backend.h"

typedef enum dsconv_module_result {
    DSCONV_MODULE_OPENED,
    DSCONV_MODULE_NOT_FOUND, /* no such file; the message lists the directories searched */
    DSCONV_MODULE_REFUSED    /* a file, but not a usable one; the message says which and why */
} dsconv_module_result;

/** Sets the directory searched first: an absolute path, or NULL for none. */
void dsconv_module_search(const char *directory);

/**
 * Opens module `name` ([a-z0-9_]) and looks up `symbol` in it. The module stays open.
 * alone: its libraries prefer their own symbols to those that the host loaded globally.
 * Thread-safety: any thread.
 */
dsconv_module_result dsconv_module_open(const char *name, const char *symbol, bool alone,
                                        void **address, dsconv_message *message);

/** Opens the module of a backend and checks its table. */
dsconv_module_result dsconv_module_open_backend(const char *name, const dsconv_backend **backend,
                                                dsconv_message *message);

#endif
