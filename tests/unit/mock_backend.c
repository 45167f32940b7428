/*
 * A backend as a third party writes one: it includes backend.h and nothing else of the library.
 * Two devices, memory that the host cannot reach, streams whose work waits until waited for.
 * MOCK_FAULT makes it misbehave in one way.
 */
#include "mock_backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES = 2 };

typedef struct mock_device {
    int32_t index;
} mock_device;

typedef struct mock_plan {
    dsconv_shape shape;
    float *w_dw, *w_pw;
} mock_plan;

extern mock_counts mock_counts_here __asm__("mock_counts") EXPORT;
mock_counts mock_counts_here;

static dsconv_status fail(dsconv_message *message, dsconv_status status, const char *text) {
    (void)snprintf(message->text, sizeof message->text, "%s", text);
    return status;
}

/* A device pointer is a host pointer with bits set that no host pointer has. */
static uintptr_t tag(const mock_device *device) {
    return (uintptr_t)(device->index + 1) << 60;
}

static void *to_device(const mock_device *device, void *host) {
    return (void *)((uintptr_t)host | tag(device));
}

/* NULL for memory that is not this device's. */
static void *to_host(const mock_device *device, const void *pointer) {
    uintptr_t bits = (uintptr_t)pointer;
    return bits >> 60 == tag(device) >> 60 ? (void *)(bits ^ tag(device)) : NULL;
}

static dsconv_status probe(int32_t device, dsconv_device_info *info, dsconv_message *message) {
    static const char *const reasons[] = {
        [FAULT_NO_DRIVER] = "the driver is not installed",
        [FAULT_NO_DEVICE] = "the driver sees no device",
        [FAULT_TOO_OLD] = "device 0 is too old",
    };
    if (MOCK_FAULT >= FAULT_NO_DRIVER && MOCK_FAULT <= FAULT_TOO_OLD)
        return fail(message, DSCONV_ERROR_UNAVAILABLE, reasons[MOCK_FAULT]);
    if (device >= DEVICES)
        return fail(message, DSCONV_ERROR_INVALID_ARGUMENT, "device: there are 2");
    (void)snprintf(info->name, sizeof info->name, "mock device %d", (int)device);
    (void)snprintf(info->arch, sizeof info->arch, "mock");
    info->device_count = DEVICES;
    info->compute_units = 1;
    info->memory_size = 1 << 20;
    return DSCONV_OK;
}

static dsconv_status open_device(int32_t device, int32_t threads, void **handle,
                                 dsconv_message *message) {
    (void)threads;
    mock_device *opened = MOCK_FAULT == FAULT_OPEN ? NULL : malloc(sizeof *opened);
    if (!opened)
        return fail(message, DSCONV_ERROR_DEVICE, "the device does not answer");
    opened->index = device;
    mock_counts_here.handles++;
    *handle = opened;
    return DSCONV_OK;
}

static void close_device(void *handle) {
    mock_counts_here.handles--;
    mock_counts_here.releases++;
    free(handle);
}

static dsconv_status alloc(void *handle, size_t size, void **pointer, dsconv_message *message) {
    void *host = size <= 1 << 20 ? aligned_alloc(256, (size + 255) / 256 * 256) : NULL;
    if (!host)
        return fail(message, DSCONV_ERROR_OUT_OF_MEMORY, "out of device memory");
    mock_counts_here.allocations++;
    *pointer = to_device(handle, host);
    return DSCONV_OK;
}

static void release(void *handle, void *pointer) {
    mock_counts_here.allocations--;
    mock_counts_here.releases++;
    free(to_host(handle, pointer));
}

/* One output pixel, all channels. */
static void compute_pixel(const mock_plan *plan, const float *x, float *y, int64_t p, int64_t q) {
    const dsconv_problem *a = &plan->shape.problem;
    for (int64_t k = 0; k < a->k; k++)
        y[k * a->y_strides[1]] = MOCK_FAULT == FAULT_WRONG ? 0.125F : 0.0F;
    for (int64_t j = 0; j < plan->shape.mid_channels; j++) {
        float mid = 0.0F;
        for (int64_t r = 0; r < a->r; r++)
            for (int64_t s = 0; s < a->s; s++) {
                int64_t h = p * a->stride_h + r * a->dil_h - a->pad_top;
                int64_t w = q * a->stride_w + s * a->dil_w - a->pad_left;
                if (h >= 0 && h < a->h && w >= 0 && w < a->w)
                    mid += x[j / a->multiplier * a->x_strides[1] + h * a->x_strides[2] +
                             w * a->x_strides[3]] *
                           plan->w_dw[(j * a->r + r) * a->s + s];
            }
        for (int64_t k = 0; k < a->k; k++)
            y[k * a->y_strides[1]] += mid * plan->w_pw[k * plan->shape.mid_channels + j];
    }
}

static void compute(void *handle, const mock_plan *plan, const dsconv_run_params *params) {
    const dsconv_problem *a = &plan->shape.problem;
    const float *x = to_host(handle, params->x);
    float *y = to_host(handle, params->y);
    for (int64_t n = 0; n < a->n; n++)
        for (int64_t p = 0; p < plan->shape.p; p++)
            for (int64_t q = 0; q < plan->shape.q; q++)
                compute_pixel(plan, x + n * a->x_strides[0],
                              y + n * a->y_strides[0] + p * a->y_strides[2] + q * a->y_strides[3],
                              p, q);
}

static dsconv_status sync_stream(void *handle, void *opaque, dsconv_message *message) {
    (void)handle, (void)message;
    mock_stream *stream = opaque;
    for (int i = 0; stream && i < stream->count; i++)
        compute(stream->jobs[i].handle, stream->jobs[i].plan, &stream->jobs[i].params);
    if (stream)
        stream->count = 0;
    return DSCONV_OK;
}

static dsconv_status copy(void *handle, void *destination, const void *source, size_t size,
                          dsconv_copy_kind kind, void *stream, dsconv_message *message) {
    (void)sync_stream(handle, stream, message);
    void *to = kind == DSCONV_DEVICE_TO_HOST ? destination : to_host(handle, destination);
    const void *from = kind == DSCONV_HOST_TO_DEVICE ? source : to_host(handle, source);
    if (!to || !from)
        return fail(message, DSCONV_ERROR_DEVICE, "not memory of this device");
    memcpy(to, from, size);
    return DSCONV_OK;
}

static dsconv_status supports(void *handle, const dsconv_shape *shape, const char *algo,
                              dsconv_message *message) {
    (void)handle;
    const dsconv_problem *a = &shape->problem;
    if (algo && strcmp(algo, "direct") != 0)
        return fail(message, DSCONV_ERROR_INVALID_ARGUMENT, "algo: only direct exists");
    if (a->dtype != DSCONV_F32 || a->bias || a->residual || a->output_mid || a->act_mid.kind ||
        a->act_out.kind)
        return fail(message, DSCONV_ERROR_UNSUPPORTED, "only plain f32 problems");
    return DSCONV_OK;
}

static void plan_destroy(void *handle, void *opaque) {
    (void)handle;
    mock_plan *plan = opaque;
    mock_counts_here.plans--;
    mock_counts_here.releases++;
    free(plan->w_dw);
    free(plan->w_pw);
    free(plan);
}

static dsconv_status plan_create(void *handle, const dsconv_shape *shape,
                                 const dsconv_plan_params *params, void **opaque,
                                 dsconv_backend_plan_info *info, dsconv_message *message) {
    (void)handle, (void)params;
    mock_plan *plan = MOCK_FAULT == FAULT_PLAN ? NULL : calloc(1, sizeof *plan);
    if (!plan)
        return fail(message, DSCONV_ERROR_OUT_OF_MEMORY, "no room for the plan");
    plan->shape = *shape;
    mock_counts_here.plans++;
    *info = (dsconv_backend_plan_info){"direct", "plain loops", 0, 512};
    *opaque = plan;
    return DSCONV_OK;
}

static float *take(const mock_device *device, const void *source, int64_t count,
                   dsconv_memory memory) {
    float *taken = malloc((size_t)count * sizeof *taken);
    const void *from = memory == DSCONV_MEMORY_DEVICE ? to_host(device, source) : source;
    if (taken && from)
        memcpy(taken, from, (size_t)count * sizeof *taken);
    return taken;
}

static dsconv_status set_weights(void *handle, void *opaque, const dsconv_weights *weights,
                                 dsconv_message *message) {
    mock_plan *plan = opaque;
    const dsconv_problem *a = &plan->shape.problem;
    if (MOCK_FAULT == FAULT_WEIGHTS)
        return fail(message, DSCONV_ERROR_DEVICE, "the weights got lost");
    plan->w_dw =
        take(handle, weights->w_dw, plan->shape.mid_channels * a->r * a->s, weights->memory);
    plan->w_pw = take(handle, weights->w_pw, plan->shape.mid_channels * a->k, weights->memory);
    return plan->w_dw && plan->w_pw ? DSCONV_OK
                                    : fail(message, DSCONV_ERROR_OUT_OF_MEMORY, "out of memory");
}

static dsconv_status run(void *handle, const void *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    mock_stream *stream = params->stream;
    if (MOCK_FAULT == FAULT_RUN)
        return fail(message, DSCONV_ERROR_DEVICE, "the device has fallen off the bus");
    if (!to_host(handle, params->x) || !to_host(handle, params->y) ||
        !to_host(handle, params->workspace))
        return fail(message, DSCONV_ERROR_DEVICE, "not memory of this device");
    if ((uintptr_t)params->workspace % 256 || params->workspace_size < 512)
        return fail(message, DSCONV_ERROR_DEVICE, "the core broke its word on the workspace");
    if (!stream) {
        compute(handle, plan, params);
        return DSCONV_OK;
    }
    if (stream->count == (int)(sizeof stream->jobs / sizeof *stream->jobs))
        return fail(message, DSCONV_ERROR_DEVICE, "the stream is full");
    stream->jobs[stream->count].handle = handle;
    stream->jobs[stream->count].plan = plan;
    stream->jobs[stream->count].params = *params;
    stream->count++;
    return DSCONV_OK;
}

static const char *const algos[] = {"direct", NULL};

static const dsconv_backend table = {
    .abi = MOCK_FAULT == FAULT_ABI ? DSCONV_BACKEND_ABI + 1 : DSCONV_BACKEND_ABI,
    .struct_size = MOCK_FAULT == FAULT_SHORT ? sizeof table - 8 : sizeof table,
    .name = MOCK_FAULT == FAULT_NAME ? "someone_else" : MOCK_NAME,
    .algos = algos,
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
    .run = MOCK_FAULT == FAULT_FUNCTION ? NULL : run,
    .sync = sync_stream,
};

EXPORT const dsconv_backend *MOCK_ENTRY(void);
const dsconv_backend *MOCK_ENTRY(void) {
    return MOCK_FAULT == FAULT_NO_TABLE ? NULL : &table;
}
