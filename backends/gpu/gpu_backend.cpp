/* Plans: picks an algorithm, packs the weights, launches. */
#include "gpu_internal.h"

#include <stdlib.h>
#include <string.h>

/* The first algorithm that takes the problem: of that name, or of auto's choice. */
static const gpu_algo *choose(const gpu_context *context, const dsconv_shape *shape,
                              const char *name, const char **reason) {
    *reason = NULL;
    for (const gpu_algo *const *algo = gpu_algos; *algo; algo++) {
        if (name && strcmp(name, (*algo)->name) != 0)
            continue;
        const char *refused = (*algo)->refuse(context, shape);
        if (refused)
            *reason = refused;
        else if (name || !(*algo)->prefer || (*algo)->prefer(shape))
            return *algo;
    }
    return NULL;
}

dsconv_status gpu_supports(void *handle, const dsconv_shape *shape, const char *algo,
                           dsconv_message *message) {
    const char *reason;
    if (shape->problem.dtype == DSCONV_I8)
        return gpu_fail(message, DSCONV_ERROR_UNSUPPORTED, "dtype i8: %s has no code for it",
                        gpu_backend_name);
    if (choose((const gpu_context *)handle, shape, algo, &reason))
        return DSCONV_OK;
    if (reason)
        return gpu_fail(message, DSCONV_ERROR_UNSUPPORTED, "%s: %s", algo ? algo : gpu_backend_name,
                        reason);
    return gpu_fail(message, DSCONV_ERROR_INVALID_ARGUMENT,
                    "algo \"%.64s\": %s has no such algorithm", algo, gpu_backend_name);
}

static gpu_strides strides(const int64_t s[4]) {
    return {s[0], s[1], s[2], s[3]};
}

static void describe(const dsconv_shape *shape, gpu_plan *plan) {
    const dsconv_problem *pb = &shape->problem;
    gpu_conv *conv = &plan->conv;
    plan->dtype = pb->dtype;
    plan->math = pb->math;
    plan->tap_count = (size_t)(shape->mid_channels * pb->r * pb->s);
    plan->pointwise_count = (size_t)(shape->mid_channels * pb->k);
    conv->pixels = pb->n * shape->p * shape->q;
    conv->h = pb->h;
    conv->w = pb->w;
    conv->p = shape->p;
    conv->q = shape->q;
    conv->k = pb->k;
    conv->mid_channels = shape->mid_channels;
    conv->multiplier = pb->multiplier;
    conv->stride_h = pb->stride_h;
    conv->stride_w = pb->stride_w;
    conv->pad_top = pb->pad_top;
    conv->pad_left = pb->pad_left;
    conv->dil_h = pb->dil_h;
    conv->dil_w = pb->dil_w;
    conv->xs = strides(pb->x_strides);
    conv->ys = strides(pb->y_strides);
    conv->rs = strides(pb->residual_strides);
    conv->ms = strides(shape->mid_strides);
    conv->act_mid = pb->act_mid;
    conv->act_out = pb->act_out;
    conv->residual_kind = pb->residual;
    conv->r = (int)pb->r;
    conv->s = (int)pb->s;
    conv->channels_last = pb->layout == DSCONV_NHWC;
}

/* The weights share one allocation, whose address is that of the first. */
static gpuError_t allocate_weights(gpu_plan *plan) {
    gpu_weights *w = &plan->conv.weights;
    const size_t mid = (size_t)plan->conv.mid_channels, k = (size_t)plan->conv.k;
    const size_t size = (plan->tap_count + plan->pointwise_count + mid + k + 2) * 4;
    const size_t rounded = (size + 255) / 256 * 256;
    gpuError_t error = gpuMalloc((void **)&w->dw, rounded + plan->packed_size);
    if (error != gpuSuccess)
        return error;
    w->pw = w->dw + plan->tap_count;
    w->bias_dw = w->pw + plan->pointwise_count;
    w->bias_pw = w->bias_dw + mid;
    w->extreme = (int *)(w->bias_pw + k);
    plan->packed = (char *)w->dw + rounded;
    return gpuSuccess;
}

void gpu_plan_destroy(void *handle, void *opaque) {
    gpu_plan *plan = (gpu_plan *)opaque;
    if (plan->conv.weights.dw)
        gpu_release(handle, plan->conv.weights.dw);
    free(plan);
}

dsconv_status gpu_plan_create(void *handle, const dsconv_shape *shape,
                              const dsconv_plan_params *params, void **opaque,
                              dsconv_backend_plan_info *info, dsconv_message *message) {
    const gpu_context *context = (const gpu_context *)handle;
    const char *reason;
    int previous;
    gpu_plan *plan = (gpu_plan *)calloc(1, sizeof *plan);
    if (!plan)
        return gpu_fail(message, DSCONV_ERROR_OUT_OF_MEMORY, "out of host memory");
    plan->algo = choose(context, shape, params->algo, &reason);
    plan->kernel = plan->algo->name;
    describe(shape, plan);
    gpuError_t error = gpu_enter(context, &previous);
    if (error == gpuSuccess) {
        if (plan->conv.pixels > 0)
            error = plan->algo->prepare(context, shape, plan);
        if (error == gpuSuccess)
            error = allocate_weights(plan);
        gpu_leave(context, previous);
    }
    dsconv_status status = gpu_check(error, "making a plan", message);
    if (status) {
        gpu_plan_destroy(handle, plan);
        return status;
    }
    info->algo = plan->algo->name;
    info->kernel = plan->kernel;
    info->uses_tf32 = plan->uses_tf32;
    info->workspace_size = 0;
    *opaque = plan;
    return DSCONV_OK;
}

dsconv_status gpu_set_weights(void *handle, void *opaque, const dsconv_weights *weights,
                              dsconv_message *message) {
    const gpu_context *context = (const gpu_context *)handle;
    int previous;
    gpuError_t error = gpu_enter(context, &previous);
    if (error == gpuSuccess) {
        error = gpu_pack_weights((const gpu_plan *)opaque, weights);
        gpu_leave(context, previous);
    }
    return gpu_check(error, "packing weights", message);
}

dsconv_status gpu_run(void *handle, const void *opaque, const dsconv_run_params *params,
                      dsconv_message *message) {
    const gpu_plan *plan = (const gpu_plan *)opaque;
    gpu_conv conv = plan->conv;
    conv.x = params->x;
    conv.y = params->y;
    conv.residual = params->residual;
    conv.mid = params->mid;
    const gpu_context *context = (const gpu_context *)handle;
    int previous;
    gpuError_t error = gpu_enter(context, &previous);
    if (error == gpuSuccess) {
        error = plan->algo->launch(plan, &conv, (gpuStream_t)params->stream);
        gpu_leave(context, previous);
    }
    return gpu_check(error, "launching", message);
}
