/* A backend opened on a device, shared by the caller and the plans made from it. */
#ifndef DSCONV_SRC_CONTEXT_H
#define DSCONV_SRC_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "dsconv/backend.h"
#include "log.h"

struct dsconv_context {
    const dsconv_backend *backend;
    void *handle; /* the backend's */
    dsconv_log log;
    int32_t device;
    unsigned forks;      /* dsconv_fork_count() when it was opened */
    atomic_uint holders; /* the caller and each plan */
};

/** Whether the device was opened before a fork that its handle does not survive. */
bool dsconv_context_lost(const dsconv_context *context);

/** Refuses NULL and a lost context. */
dsconv_status dsconv_context_check(const dsconv_context *context);

void dsconv_context_hold(dsconv_context *context);
void dsconv_context_release(dsconv_context *context);

/** Takes a backend's failure over to the thread's message and to the log. */
dsconv_status dsconv_context_fail(const dsconv_context *context, dsconv_status status,
                                  const dsconv_message *message);

#endif
