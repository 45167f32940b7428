/* The backends known by name, and how to get the table of one. */
#ifndef DSCONV_SRC_REGISTRY_H
#define DSCONV_SRC_REGISTRY_H

#include <stdbool.h>

#include "dsconv/backend.h"

typedef struct dsconv_known_backend {
    const char *name;
    bool automatic;               /* tried by "auto", in the order of the list */
    bool built;                   /* this library was configured with it */
    const dsconv_backend *linked; /* its table, or NULL when it is a module or not built */
} dsconv_known_backend;

/** Known backend `index`, or NULL past the last. */
const dsconv_known_backend *dsconv_known(size_t index);

/**
 * Finds a backend by name: linked in, or as a module, listed or not. backend_dir comes from the
 * environment, or is NULL. *backend is set on success only. Errors, told without the name:
 * UNKNOWN_BACKEND, UNAVAILABLE, OUT_OF_MEMORY. Thread-safety: any thread.
 */
dsconv_status dsconv_find_backend(const char *name, const char *backend_dir,
                                  const dsconv_backend **backend, dsconv_message *message);

#endif
