#include "env.h"

#include <stdlib.h>
#include <string.h>

#include "message.h"

/* A set-user-id program takes no module directory from its caller. */
static const char *value_of(const char *name) {
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

static dsconv_status read_level(dsconv_log_level *level) {
    static const struct {
        const char *name;
        dsconv_log_level level;
    } levels[] = {
        {"off", DSCONV_LOG_OFF},
        {"error", DSCONV_LOG_ERROR},
        {"info", DSCONV_LOG_INFO},
        {"debug", DSCONV_LOG_DEBUG},
    };
    const char *value = value_of("DSCONV_LOG");
    *level = DSCONV_LOG_ERROR;
    if (!value)
        return DSCONV_OK;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(value, levels[i].name) == 0) {
            *level = levels[i].level;
            return DSCONV_OK;
        }
    return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                       "DSCONV_LOG = \"%.64s\": must be off, error, info or debug", value);
}

dsconv_status dsconv_env_read(dsconv_env *env) {
    env->backend = value_of("DSCONV_BACKEND");
    env->backend_dir = value_of("DSCONV_BACKEND_DIR");
    if (env->backend_dir && env->backend_dir[0] != '/')
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "DSCONV_BACKEND_DIR = \"%.128s\": must be an absolute path",
                           env->backend_dir);
    return read_level(&env->log_level);
}
