/* The vtable of backend `cpu`: picks an algorithm and calls it. */
#include "cpu_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "cpu_kernels.h"

/* In the order that auto asks. */
static const cpu_algo *const algos[] = {
    &dsconv_cpu_algo_fused_nhwc, &dsconv_cpu_algo_fused_planes, &dsconv_cpu_algo_fused_nchw,
    &dsconv_cpu_algo_generic,    &dsconv_cpu_algo_onednn,
};
enum { ALGOS = sizeof algos / sizeof algos[0] };

static const char *const algo_names[] = {"fused", "onednn", "generic", NULL};

static dsconv_status fail(dsconv_message *message, dsconv_status status, const char *text) {
    (void)snprintf(message->text, sizeof message->text, "%s", text);
    return status;
}

dsconv_status dsconv_cpu_out_of_memory(dsconv_message *message) {
    return fail(message, DSCONV_ERROR_OUT_OF_MEMORY, "out of host memory");
}

static int default_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static dsconv_status probe(int32_t device, dsconv_device_info *info, dsconv_message *message) {
    if (device != 0) {
        (void)snprintf(message->text, sizeof message->text, "device %" PRId32 ": cpu has device 0",
                       device);
        return DSCONV_ERROR_INVALID_ARGUMENT;
    }
    (void)snprintf(info->name, sizeof info->name, "host processor");
    (void)snprintf(info->arch, sizeof info->arch, "%s", dsconv_cpu_best_kernels()->isa);
    info->device_count = 1;
    info->compute_units = default_threads();
    info->memory_size = 0;
    return DSCONV_OK;
}

static dsconv_status open_device(int32_t device, int32_t threads, void **handle,
                                 dsconv_message *message) {
    (void)device;
    cpu_context *context = malloc(sizeof *context);
    if (!context)
        return dsconv_cpu_out_of_memory(message);
    context->threads = threads > 0 ? threads : default_threads();
    context->kernels = dsconv_cpu_best_kernels();
    *handle = context;
    return DSCONV_OK;
}

static void close_device(void *handle) {
    free(handle);
}

static dsconv_status alloc(void *handle, size_t size, void **pointer, dsconv_message *message) {
    (void)handle;
    size_t rounded = (size + 255) & ~(size_t)255;
    *pointer = rounded >= size ? aligned_alloc(256, rounded) : NULL;
    return *pointer ? DSCONV_OK : dsconv_cpu_out_of_memory(message);
}

static void release(void *handle, void *pointer) {
    (void)handle;
    free(pointer);
}

static dsconv_status copy(void *handle, void *destination, const void *source, size_t size,
                          dsconv_copy_kind kind, void *stream, dsconv_message *message) {
    (void)handle, (void)kind, (void)stream, (void)message;
    memcpy(destination, source, size);
    return DSCONV_OK;
}

/* The first algorithm that takes the problem: of that name, or of auto's choice. */
static const cpu_algo *choose(const cpu_context *context, const dsconv_shape *shape,
                              const char *name, const char **reason) {
    *reason = NULL;
    for (int i = 0; i < ALGOS; i++) {
        if (name && strcmp(name, algos[i]->name) != 0)
            continue;
        const char *refused = algos[i]->refuse(context, shape);
        if (refused)
            *reason = refused;
        else if (name || !algos[i]->prefer || algos[i]->prefer(context, shape))
            return algos[i];
    }
    return NULL;
}

static dsconv_status supports(void *handle, const dsconv_shape *shape, const char *algo,
                              dsconv_message *message) {
    const char *reason;
    if (shape->problem.dtype == DSCONV_I8)
        return fail(message, DSCONV_ERROR_UNSUPPORTED, "dtype i8: cpu has no code for it");
    if (choose(handle, shape, algo, &reason))
        return DSCONV_OK;
    if (reason) {
        (void)snprintf(message->text, sizeof message->text, "algo %s: %s", algo, reason);
        return DSCONV_ERROR_UNSUPPORTED;
    }
    (void)snprintf(message->text, sizeof message->text, "algo \"%.64s\": cpu has no such algorithm",
                   algo);
    return DSCONV_ERROR_INVALID_ARGUMENT;
}

static void plan_destroy(void *handle, void *opaque) {
    (void)handle;
    cpu_plan *plan = opaque;
    dsconv_cpu_plan_release(plan);
    free(plan);
}

static dsconv_status plan_create(void *handle, const dsconv_shape *shape,
                                 const dsconv_plan_params *params, void **opaque,
                                 dsconv_backend_plan_info *info, dsconv_message *message) {
    const cpu_context *context = handle;
    const char *reason;
    cpu_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return dsconv_cpu_out_of_memory(message);
    plan->algo = choose(context, shape, params->algo, &reason);
    plan->kernels = context->kernels;
    plan->shape = *shape;
    plan->threads = context->threads;
    plan->flush_denormals = params->flush_denormals != 0;
    dsconv_status status = plan->algo->create(plan, message);
    if (status) {
        plan_destroy(handle, plan);
        return status;
    }
    info->algo = plan->algo->name;
    info->kernel = plan->kernel;
    info->uses_tf32 = 0;
    info->workspace_size = plan->workspace_size;
    *opaque = plan;
    return DSCONV_OK;
}

/* Floats as they are; others converted into *next, which moves on. */
static const float *as_floats(const void *from, int64_t count, dsconv_dtype type, float **next) {
    if (!from || type == DSCONV_F32)
        return from;
    float *to = *next;
    dsconv_cpu_to_float(to, from, count, type);
    *next += count;
    return to;
}

static dsconv_status set_weights(void *handle, void *opaque, const dsconv_weights *from,
                                 dsconv_message *message) {
    (void)handle;
    cpu_plan *plan = opaque;
    const dsconv_problem *p = &plan->shape.problem;
    const int64_t mid = plan->shape.mid_channels, taps = p->r * p->s;
    float *floats = NULL;
    if (p->dtype != DSCONV_F32) {
        floats = dsconv_cpu_alloc(mid * (taps + p->k + 1) + p->k, sizeof *floats);
        if (!floats)
            return dsconv_cpu_out_of_memory(message);
    }
    float *next = floats;
    const cpu_weights weights = {
        .w_dw = as_floats(from->w_dw, mid * taps, p->dtype, &next),
        .bias_dw = as_floats(from->bias_dw, mid, p->dtype, &next),
        .w_pw = as_floats(from->w_pw, mid * p->k, p->dtype, &next),
        .bias_pw = as_floats(from->bias_pw, p->k, p->dtype, &next),
    };
    const dsconv_status status = plan->algo->set_weights(plan, &weights, message);
    free(floats);
    return status;
}

static dsconv_status run(void *handle, const void *opaque, const dsconv_run_params *params,
                         dsconv_message *message) {
    (void)handle;
    const cpu_plan *plan = opaque;
    return plan->algo->run(plan, params, message);
}

static dsconv_status sync_stream(void *handle, void *stream, dsconv_message *message) {
    (void)handle, (void)stream, (void)message;
    return DSCONV_OK;
}

extern const dsconv_backend dsconv_backend_cpu;
const dsconv_backend dsconv_backend_cpu = {
    .abi = DSCONV_BACKEND_ABI,
    .struct_size = sizeof(dsconv_backend),
    .name = "cpu",
    .flags = DSCONV_BACKEND_HOST_MEMORY | DSCONV_BACKEND_SURVIVES_FORK,
    .algos = algo_names,
    .probe = probe,
    .open = open_device,
    .close = close_device,
    .alloc = alloc,
    .free = release,
    .copy = copy,
    .supports = supports,
    .plan_create = plan_create,
    .plan_destroy = plan_destroy,
    .set_weights = set_weights,
    .run = run,
    .sync = sync_stream,
};
