/* What the files of a GPU backend share. */
#ifndef DSCONV_GPU_INTERNAL_H
#define DSCONV_GPU_INTERNAL_H

#include <dsconv/backend.h>

#include "gpu_conv.h"
#include "gpu_rt.h"

/* Of positive numbers. */
static inline int64_t gpu_ceil_div(int64_t a, int64_t b) {
    return (a - 1) / b + 1;
}

typedef struct gpu_context {
    int32_t device;
    int compute_units, capability; /* capability: 10 * major + minor */
    void *native[3];               /* the vendor's own */
} gpu_context;

typedef struct gpu_plan gpu_plan;

/* One way to compute a problem. */
typedef struct gpu_algo {
    const char *name;
    /* Why it cannot do the problem, or NULL if it can. */
    const char *(*refuse)(const gpu_context *context, const dsconv_shape *shape);
    /* Whether auto should take it; depends neither on n nor on the device. NULL: always. */
    bool (*prefer)(const dsconv_shape *shape);
    /* Chooses and loads the kernels; fills plan->kernel, plan->uses_tf32, plan->data and, for
     * weights in an order of its own, plan->pack and plan->packed_size. */
    gpuError_t (*prepare)(const gpu_context *context, const dsconv_shape *shape, gpu_plan *plan);
    /* Enqueues one launch. `conv` is the plan's with the pointers of this run. */
    gpuError_t (*launch)(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream);
} gpu_algo;

enum { GPU_PLAN_DATA_SIZE = 128 };

struct gpu_plan {
    const gpu_algo *algo;
    const char *kernel;
    int uses_tf32;
    dsconv_dtype dtype;
    dsconv_math math;
    gpu_conv conv;                             /* without the pointers that a run brings */
    size_t tap_count, pointwise_count;         /* elements of w_dw and w_pw */
    size_t packed_size;                        /* bytes of `packed`, beside conv.weights */
    char *packed;                              /* aligned to 256 bytes */
    gpuError_t (*pack)(const gpu_plan *plan);  /* enqueues filling it from conv.weights, or NULL */
    alignas(16) char data[GPU_PLAN_DATA_SIZE]; /* the algorithm's own */
};

/* ---- what a vendor defines ---- */

extern const char gpu_backend_name[];     /* such as "cuda" */
extern const char gpu_driver_name[];      /* such as "CUDA driver (libcuda.so.1)" */
extern const gpu_algo *const gpu_algos[]; /* in the order that auto asks, then NULL */

/* Describes the instruction set of a device and says whether the module has code for it. */
bool gpu_describe_arch(const gpuDeviceProp *device, char *arch, size_t size);

/* Between enter and leave the calling thread uses the context's device; what was current before is
 * so again afterwards, and no context comes to be on another device. */
gpuError_t gpu_attach(gpu_context *context);
void gpu_detach(gpu_context *context);
gpuError_t gpu_enter(const gpu_context *context, int *previous);
void gpu_leave(const gpu_context *context, int previous);

/* ---- shared ---- */

/* Not const: HIP puts const objects into device code, too, which lacks the functions. */
extern gpu_algo gpu_algo_portable;

dsconv_status gpu_fail(dsconv_message *message, dsconv_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* OK, or the status that fits, with `what` failed and the runtime's own words; clears the error. */
dsconv_status gpu_check(gpuError_t error, const char *what, dsconv_message *message);

/* Packs weights into plan->conv.weights, which is allocated; waits for it. */
gpuError_t gpu_pack_weights(const gpu_plan *plan, const dsconv_weights *weights);

/* The entries of the backend's table. */
dsconv_status gpu_probe(int32_t device, dsconv_device_info *info, dsconv_message *message);
dsconv_status gpu_open(int32_t device, int32_t threads, void **handle, dsconv_message *message);
void gpu_close(void *handle);
dsconv_status gpu_alloc(void *handle, size_t size, void **pointer, dsconv_message *message);
void gpu_release(void *handle, void *pointer);
dsconv_status gpu_copy(void *handle, void *destination, const void *source, size_t size,
                       dsconv_copy_kind kind, void *stream, dsconv_message *message);
dsconv_status gpu_sync(void *handle, void *stream, dsconv_message *message);
dsconv_status gpu_supports(void *handle, const dsconv_shape *shape, const char *algo,
                           dsconv_message *message);
dsconv_status gpu_plan_create(void *handle, const dsconv_shape *shape,
                              const dsconv_plan_params *params, void **plan,
                              dsconv_backend_plan_info *info, dsconv_message *message);
void gpu_plan_destroy(void *handle, void *plan);
dsconv_status gpu_set_weights(void *handle, void *plan, const dsconv_weights *weights,
                              dsconv_message *message);
dsconv_status gpu_run(void *handle, const void *plan, const dsconv_run_params *params,
                      dsconv_message *message);

constexpr dsconv_backend gpu_backend_table(const char *name, const char *const *algo_names) {
    return {DSCONV_BACKEND_ABI,
            sizeof(dsconv_backend),
            name,
            0,
            algo_names,
            gpu_probe,
            gpu_open,
            gpu_close,
            gpu_alloc,
            gpu_release,
            gpu_copy,
            gpu_supports,
            gpu_plan_create,
            gpu_plan_destroy,
            gpu_set_weights,
            gpu_run,
            gpu_sync};
}

#endif
