#include "context.h"

#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "fork.h"
#include "message.h"
#include "problem.h"
#include "registry.h"
#include "structs.h"

bool dsconv_context_lost(const dsconv_context *context) {
    return context->forks != dsconv_fork_count() &&
           !(context->backend->flags & DSCONV_BACKEND_SURVIVES_FORK);
}

dsconv_status dsconv_context_check(const dsconv_context *context) {
    if (!context)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "context = NULL");
    if (dsconv_context_lost(context))
        return dsconv_fail(DSCONV_ERROR_STATE,
                           "%s: the context was made before fork() and is of no use in the child",
                           context->backend->name);
    return DSCONV_OK;
}

void dsconv_context_hold(dsconv_context *context) {
    atomic_fetch_add_explicit(&context->holders, 1, memory_order_relaxed);
}

void dsconv_context_release(dsconv_context *context) {
    if (atomic_fetch_sub_explicit(&context->holders, 1, memory_order_acq_rel) != 1)
        return;
    if (!dsconv_context_lost(context))
        context->backend->close(context->handle);
    free(context);
}

dsconv_status dsconv_context_fail(const dsconv_context *context, dsconv_status status,
                                  const dsconv_message *message) {
    dsconv_log_line(&context->log, DSCONV_LOG_ERROR, "%s: %s", context->backend->name,
                    message->text);
    return dsconv_fail(status, "%s: %s", context->backend->name, message->text);
}

/* Finds, probes and opens one backend; the text of a failure names it. */
static dsconv_status open_backend(dsconv_context *context, const char *name, const dsconv_env *env,
                                  int32_t threads, dsconv_message *message) {
    dsconv_message reason = {""};
    dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
    dsconv_status status = dsconv_find_backend(name, env->backend_dir, &context->backend, &reason);
    if (!status)
        status = context->backend->probe(context->device, &info, &reason);
    if (!status)
        status = context->backend->open(context->device, threads, &context->handle, &reason);
    if (status)
        return dsconv_explain(message, status, "%.64s: %s", name, reason.text);
    dsconv_log_line(&context->log, DSCONV_LOG_INFO, "%s: device %d, %s (%s)", name,
                    (int)context->device, info.name, info.arch);
    return DSCONV_OK;
}

static bool passes_over(dsconv_status status) {
    return status == DSCONV_ERROR_UNAVAILABLE || status == DSCONV_ERROR_DEVICE;
}

/* The first backend of the list that is installed and has a device that works. */
static dsconv_status open_automatic(dsconv_context *context, const dsconv_env *env, int32_t threads,
                                    dsconv_message *message) {
    dsconv_status status = dsconv_explain(message, DSCONV_ERROR_UNAVAILABLE, "no backend is built");
    const dsconv_known_backend *known;
    for (size_t i = 0; passes_over(status) && (known = dsconv_known(i)); i++) {
        if (!known->automatic)
            continue;
        status = open_backend(context, known->name, env, threads, message);
        if (status)
            dsconv_log_line(&context->log, DSCONV_LOG_INFO, "auto passes over %s", message->text);
    }
    return status;
}

/* OpenMP ends a process that it cannot give its threads. */
static const int32_t most_threads = 1024;

static dsconv_status check_params(const dsconv_context_params *params) {
    if (params->device < 0)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "device = %d: must be at least 0",
                           (int)params->device);
    if (params->threads < 0 || params->threads > most_threads)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "threads = %d: must be from 0 to %d",
                           (int)params->threads, (int)most_threads);
    return DSCONV_OK;
}

dsconv_status dsconv_context_create(const dsconv_context_params *params, dsconv_context **context) {
    if (!context)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "context = NULL");
    *context = NULL;
    dsconv_env env;
    dsconv_message message = {""};
    dsconv_context_params own = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_status status =
        params ? dsconv_struct_read(&own, sizeof own, params, "params") : DSCONV_OK;
    if (!status)
        status = check_params(&own);
    if (!status)
        status = dsconv_env_read(&env);
    if (status)
        return status;

    dsconv_context *made = calloc(1, sizeof *made);
    if (!made)
        return dsconv_fail(DSCONV_ERROR_OUT_OF_MEMORY, "out of host memory");
    made->log = (dsconv_log){own.log, own.log_user, env.log_level};
    made->device = own.device;
    made->forks = dsconv_fork_count();
    atomic_init(&made->holders, 1);
    const char *name = own.backend ? own.backend : env.backend;
    if (!name || strcmp(name, "auto") == 0)
        status = open_automatic(made, &env, own.threads, &message);
    else
        status = open_backend(made, name, &env, own.threads, &message);
    if (status) {
        dsconv_log_line(&made->log, DSCONV_LOG_ERROR, "%s", message.text);
        free(made);
        return dsconv_fail(status, "%s", message.text);
    }
    *context = made;
    return DSCONV_OK;
}

void dsconv_context_destroy(dsconv_context *context) {
    if (context)
        dsconv_context_release(context);
}

const char *dsconv_context_backend(const dsconv_context *context) {
    return context ? context->backend->name : NULL;
}

dsconv_status dsconv_context_device(const dsconv_context *context, dsconv_device_info *info) {
    dsconv_status status = dsconv_struct_check(info, "info");
    if (!status)
        status = dsconv_context_check(context);
    if (status)
        return status;
    dsconv_message message = {""};
    dsconv_device_info own = DSCONV_DEVICE_INFO_INIT;
    status = context->backend->probe(context->device, &own, &message);
    if (status)
        return dsconv_context_fail(context, status, &message);
    dsconv_struct_write(info, &own, sizeof own);
    return DSCONV_OK;
}

const char *dsconv_context_algo(const dsconv_context *context, size_t index) {
    const char *const *algo = context ? context->backend->algos : NULL;
    for (size_t i = 0; algo && *algo && i < index; i++)
        algo++;
    return algo ? *algo : NULL;
}

dsconv_status dsconv_supports(const dsconv_context *context, const dsconv_problem *problem,
                              const char *algo) {
    dsconv_shape shape;
    dsconv_problem_info info;
    dsconv_message message = {""};
    dsconv_status status = dsconv_context_check(context);
    if (!status)
        status = dsconv_problem_check(problem, &shape, &info);
    if (status)
        return status;
    status = context->backend->supports(context->handle, &shape, algo, &message);
    return status ? dsconv_fail(status, "%s: %s", context->backend->name, message.text) : DSCONV_OK;
}
