/* The environment variables, read here and nowhere else. */
#ifndef DSCONV_SRC_ENV_H
#define DSCONV_SRC_ENV_H

#include "dsconv/dsconv.h"

typedef struct dsconv_env {
    const char *backend;     /* DSCONV_BACKEND, NULL when unset or empty */
    const char *backend_dir; /* DSCONV_BACKEND_DIR, absolute, NULL when unset or empty */
    dsconv_log_level log_level;
} dsconv_env;

/** Errors: INVALID_ARGUMENT naming the variable and its value. */
dsconv_status dsconv_env_read(dsconv_env *env);

#endif
