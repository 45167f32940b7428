#include "registry.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dsconv_config.h"
#include "env.h"
#include "loader.h"
#include "message.h"
#include "structs.h"

#define DSCONV_BACKEND(name, automatic) extern const dsconv_backend dsconv_backend_##name;
#include "backends.def"
#undef DSCONV_BACKEND

#define DSCONV_BACKEND(name, automatic)                                                            \
    {#name, automatic, DSCONV_BUILT_##name, DSCONV_LINKED_##name},
static const dsconv_known_backend known[] = {
#include "backends.def"
};
#undef DSCONV_BACKEND
enum { KNOWN = sizeof known / sizeof *known };

/* Modules accepted so far; they stay open. */
typedef struct module {
    struct module *next;
    const dsconv_backend *backend;
} module;

static pthread_mutex_t modules_lock = PTHREAD_MUTEX_INITIALIZER;
static module *modules;

const dsconv_known_backend *dsconv_known(size_t index) {
    return index < KNOWN ? &known[index] : NULL;
}

static const dsconv_known_backend *known_by_name(const char *name) {
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

/* What may become part of a file name. */
static bool valid_name(const char *name) {
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return length >= 1 && length <= 31 && name[length] == '\0';
}

static dsconv_status unknown(dsconv_message *message) {
    char names[128] = "auto";
    size_t length = strlen(names);
    for (size_t i = 0; i < KNOWN && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, ", %s", known[i].name);
    return dsconv_explain(message, DSCONV_ERROR_UNKNOWN_BACKEND, "no such backend; known are %s",
                          names);
}

/* Under modules_lock. */
static dsconv_status find_module(const char *name, const dsconv_known_backend *listed,
                                 const dsconv_backend **backend, dsconv_message *message) {
    for (const module *m = modules; m; m = m->next)
        if (strcmp(m->backend->name, name) == 0) {
            *backend = m->backend;
            return DSCONV_OK;
        }
    module *added = malloc(sizeof *added);
    if (!added)
        return dsconv_explain(message, DSCONV_ERROR_OUT_OF_MEMORY, "out of host memory");

    dsconv_message reason = {""};
    dsconv_module_result result = dsconv_module_open_backend(name, &added->backend, &reason);
    if (result == DSCONV_MODULE_OPENED) {
        added->next = modules;
        modules = added;
        *backend = added->backend;
        return DSCONV_OK;
    }
    free(added);
    if (result == DSCONV_MODULE_REFUSED)
        return dsconv_explain(message, DSCONV_ERROR_UNAVAILABLE, "%s", reason.text);
    if (!listed)
        return unknown(message);
    if (!listed->built)
        return dsconv_explain(message, DSCONV_ERROR_UNAVAILABLE, "not built into this libdsconv");
    return dsconv_explain(message, DSCONV_ERROR_UNAVAILABLE, "built, but not installed: %s",
                          reason.text);
}

dsconv_status dsconv_find_backend(const char *name, const char *backend_dir,
                                  const dsconv_backend **backend, dsconv_message *message) {
    const dsconv_known_backend *listed = known_by_name(name);
    dsconv_module_search(backend_dir); /* a linked backend may open modules of its own */
    if (listed && listed->linked) {
        *backend = listed->linked;
        return DSCONV_OK;
    }
    if (!valid_name(name))
        return unknown(message);
    (void)pthread_mutex_lock(&modules_lock);
    dsconv_status status = find_module(name, listed, backend, message);
    (void)pthread_mutex_unlock(&modules_lock);
    return status;
}

size_t dsconv_backend_count(void) {
    return KNOWN;
}

dsconv_status dsconv_backend_query(size_t index, dsconv_backend_info *info) {
    dsconv_status status = dsconv_struct_check(info, "info");
    if (status)
        return status;
    if (index >= KNOWN)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "index = %zu: must be below %d", index,
                           (int)KNOWN);
    dsconv_env env;
    status = dsconv_env_read(&env);
    if (status)
        return status;

    const dsconv_backend *backend = NULL;
    dsconv_message reason = {""};
    dsconv_backend_info own = DSCONV_BACKEND_INFO_INIT;
    (void)snprintf(own.name, sizeof own.name, "%s", known[index].name);
    own.built = known[index].built;
    (void)dsconv_find_backend(known[index].name, env.backend_dir, &backend, &reason);
    if (backend) {
        dsconv_device_info device = DSCONV_DEVICE_INFO_INIT;
        own.found = 1;
        own.usable = backend->probe(0, &device, &reason) == DSCONV_OK;
    }
    if (!own.usable)
        (void)snprintf(own.reason, sizeof own.reason, "%s", reason.text);
    dsconv_struct_write(info, &own, sizeof own);
    return DSCONV_OK;
}

dsconv_status dsconv_device_query(const char *name, int32_t device, dsconv_device_info *info) {
    dsconv_env env;
    dsconv_status status = dsconv_struct_check(info, "info");
    if (status)
        return status;
    if (!name)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "backend = NULL");
    if (device < 0)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "device = %d: must be at least 0",
                           (int)device);
    status = dsconv_env_read(&env);
    if (status)
        return status;

    const dsconv_backend *backend = NULL;
    dsconv_message message = {""};
    dsconv_device_info own = DSCONV_DEVICE_INFO_INIT;
    status = dsconv_find_backend(name, env.backend_dir, &backend, &message);
    if (backend)
        status = backend->probe(device, &own, &message);
    if (status)
        return dsconv_fail(status, "%.64s: %s", name, message.text);
    dsconv_struct_write(info, &own, sizeof own);
    return DSCONV_OK;
}
