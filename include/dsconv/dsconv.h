/*
 * libdsconv: a depthwise separable 2-D convolution as one fused operation.
 *
 *   mid[n, c*M+m, p, q] = act_mid(bias_dw[c*M+m] + sum_{r,s} w_dw[c*M+m, r, s]
 *       * x[n, c, p*stride_h + r*dil_h - pad_top, q*stride_w + s*dil_w - pad_left])
 *   y[n, k, p, q]       = act_out(bias_pw[k] + sum_j w_pw[k, j] * mid[n, j, p, q] (+ residual))
 *                         (+ residual)
 *   P = floor((H + pad_top + pad_bottom - dil_h*(R-1) - 1) / stride_h) + 1, and Q likewise
 *
 * M is the depth multiplier. What lies outside the image counts as zero and is never multiplied.
 * Sums are kept in fp32 or better, whatever the storage type; mid is not rounded to it.
 *
 * Use: context (backend and device) -> plan (one problem, weights packed once) -> run.
 *
 * Conventions for every function here:
 *  - A failing function returns a status other than DSCONV_OK, changes nothing that the caller can
 *    see, sets output handles to NULL, and leaves a text for dsconv_last_message() of this thread.
 *  - Structures begin with `struct_size`; set it with the structure's DSCONV_*_INIT macro. A
 *    library newer than the caller reads what the caller knew; an unset size is refused.
 *  - The library never prints, aborts, exits or writes files, and reads the environment only in
 *    dsconv_context_create() and the functions that list backends.
 *  - Any function may be called from any thread, and at the same time as others on the same object,
 *    where it does not say otherwise; none on an object that another thread is destroying.
 *  - Sizes are in bytes where named `size`, otherwise in elements.
 */
#ifndef DSCONV_DSCONV_H
#define DSCONV_DSCONV_H

#include <stddef.h>
#include <stdint.h>

#include "version.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DSCONV_API __attribute__((visibility("default")))
#else
#define DSCONV_API
#endif

typedef struct dsconv_context dsconv_context;
typedef struct dsconv_plan dsconv_plan;

typedef enum dsconv_status {
    DSCONV_OK = 0,
    DSCONV_ERROR_INVALID_ARGUMENT =
        1,                            /* a field or pointer is out of range; the message names it */
    DSCONV_ERROR_UNSUPPORTED = 2,     /* a valid problem that this backend or algorithm cannot do */
    DSCONV_ERROR_UNKNOWN_BACKEND = 3, /* no backend of that name exists */
    DSCONV_ERROR_UNAVAILABLE = 4,     /* not built, not installed, no driver, no usable device */
    DSCONV_ERROR_OUT_OF_MEMORY = 5,
    DSCONV_ERROR_DEVICE = 6, /* the device or its runtime reported a failure */
    DSCONV_ERROR_STATE = 7   /* called too early (no weights yet), or in a forked child */
} dsconv_status;

/** Storage type of x, weights, biases, residual, mid and y alike. */
typedef enum dsconv_dtype {
    DSCONV_F32 = 0,
    DSCONV_F16 = 1,
    DSCONV_BF16 = 2,
    DSCONV_I8 = 3 /* reserved: every backend answers DSCONV_ERROR_UNSUPPORTED */
} dsconv_dtype;

typedef enum dsconv_layout { DSCONV_NCHW = 0, DSCONV_NHWC = 1 } dsconv_layout;

/** strict: the accuracy of an fp32 FMA chain (relative L2 error within twice its own).
 *  tf32: the pointwise operands may be rounded to TF32 where the hardware gains by it. */
typedef enum dsconv_math { DSCONV_STRICT = 0, DSCONV_TF32 = 1 } dsconv_math;

/** With v the argument and clamp(v) = min(max(v, 0), 6). A NaN stays a NaN in all of them. */
typedef enum dsconv_activation_kind {
    DSCONV_ACT_NONE = 0,
    DSCONV_ACT_RELU = 1,        /* max(v, 0) */
    DSCONV_ACT_RELU6 = 2,       /* clamp(v) */
    DSCONV_ACT_LEAKY_RELU = 3,  /* v > 0 ? v : alpha * v */
    DSCONV_ACT_SILU = 4,        /* v * sigmoid(v) */
    DSCONV_ACT_HARDSWISH = 5,   /* v * clamp(v + 3) / 6 */
    DSCONV_ACT_HARDSIGMOID = 6, /* clamp(v + 3) / 6 */
    DSCONV_ACT_SIGMOID = 7,     /* 1 / (1 + exp(-v)) */
    DSCONV_ACT_GELU = 8,        /* v/2 * (1 + erf(v / sqrt(2))) */
    DSCONV_ACT_GELU_TANH = 9    /* v/2 * (1 + tanh(sqrt(2/pi) * (v + 0.044715 v^3))) */
} dsconv_activation_kind;

typedef struct dsconv_activation {
    dsconv_activation_kind kind;
    float alpha; /* slope of leaky_relu, finite; ignored by the others */
} dsconv_activation;

typedef enum dsconv_residual {
    DSCONV_RESIDUAL_NONE = 0,
    DSCONV_RESIDUAL_BEFORE_ACT = 1, /* y = act_out(sum + bias + residual) */
    DSCONV_RESIDUAL_AFTER_ACT = 2   /* y = act_out(sum + bias) + residual */
} dsconv_residual;

/** Bits of dsconv_problem.bias. */
enum { DSCONV_BIAS_NONE = 0, DSCONV_BIAS_DW = 1, DSCONV_BIAS_PW = 2, DSCONV_BIAS_BOTH = 3 };

/**
 * One convolution. Extents are at least 1, only n may be 0; paddings are at least 0; the padded
 * image must hold one window. Nothing else limits kernel, stride, padding and dilation, but that
 * each is below 2^40, an element stride and a tensor's span below 2^48 elements.
 * Weights: w_dw is [c*multiplier][r][s], w_pw is [k][c*multiplier], both dense.
 */
typedef struct dsconv_problem {
    size_t struct_size;
    int64_t n, c, h, w; /* input: batch, channels, height, width */
    int64_t k;          /* output channels */
    int64_t r, s;       /* depthwise kernel: height, width */
    int64_t stride_h, stride_w;
    int64_t pad_top, pad_bottom, pad_left, pad_right;
    int64_t dil_h, dil_w;
    int64_t multiplier; /* depth multiplier M: depthwise output c*M+m comes from input c */
    dsconv_dtype dtype;
    dsconv_layout layout;
    dsconv_math math;
    uint32_t bias; /* DSCONV_BIAS_* bits: which of bias_dw [c*M] and bias_pw [k] exist */
    dsconv_residual residual;
    dsconv_activation act_mid, act_out;
    int32_t output_mid; /* non-zero: run also writes mid, dense, in this layout and dtype */
    /* Element strides in the order n, c, h, w whatever the layout; positive, and all zero for a
     * dense tensor. They may interleave with other tensors (row pitch, slices) but y's may not
     * overlap themselves. */
    int64_t x_strides[4], y_strides[4], residual_strides[4];
} dsconv_problem;

/** A 3x3 stride-1 f32 NCHW problem without padding; n, c, h, w and k remain to be set. */
#define DSCONV_PROBLEM_INIT                                                                        \
    {                                                                                              \
        sizeof(dsconv_problem), 1, 0, 0, 0, 0, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1, 1, DSCONV_F32,        \
            DSCONV_NCHW, DSCONV_STRICT, 0, DSCONV_RESIDUAL_NONE, {DSCONV_ACT_NONE, 0.0F},          \
            {DSCONV_ACT_NONE, 0.0F}, 0, {0, 0, 0, 0}, {0, 0, 0, 0}, {                              \
            0, 0, 0, 0                                                                             \
        }                                                                                          \
    }

/** What follows from a problem. Spans are the elements from a tensor's first to its last, + 1;
 *  residual_span is 0 when the problem has none. */
typedef struct dsconv_problem_info {
    size_t struct_size;
    int64_t p, q;         /* output height and width */
    int64_t mid_channels; /* c * multiplier */
    int64_t x_span, y_span, residual_span, mid_span, w_dw_span, w_pw_span;
    double flops;            /* 2 per multiply-add, every tap counted, border or not */
    double compulsory_bytes; /* each tensor and weight moved once: the floor for memory traffic */
} dsconv_problem_info;
#define DSCONV_PROBLEM_INFO_INIT                                                                   \
    { sizeof(dsconv_problem_info), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0 }

/**
 * Checks a problem and computes what follows from it, without a backend.
 * Errors: INVALID_ARGUMENT naming the field and its value, UNSUPPORTED for i8. Thread-safety: any
 * thread.
 */
DSCONV_API dsconv_status dsconv_problem_query(const dsconv_problem *problem,
                                              dsconv_problem_info *info);

/* ---- backends ---------------------------------------------------------------------------- */

typedef struct dsconv_device_info {
    size_t struct_size;
    char name[128];        /* the device's own name */
    char arch[32];         /* instruction set or compute capability in use, such as "avx512" */
    int32_t device_count;  /* devices that this backend sees */
    int32_t compute_units; /* threads, multiprocessors or compute units in use */
    uint64_t memory_size;  /* bytes of device memory, 0 where unknown */
} dsconv_device_info;
#define DSCONV_DEVICE_INFO_INIT                                                                    \
    { sizeof(dsconv_device_info), "", "", 0, 0, 0 }

typedef struct dsconv_backend_info {
    size_t struct_size;
    char name[32];
    int32_t built;    /* this libdsconv was configured with it */
    int32_t found;    /* it is linked in, or its module was found and accepted */
    int32_t usable;   /* it has a device that it can run on */
    char reason[256]; /* why not found or not usable; empty when usable */
} dsconv_backend_info;
#define DSCONV_BACKEND_INFO_INIT                                                                   \
    { sizeof(dsconv_backend_info), "", 0, 0, 0, "" }

/** Number of backends this version knows by name, built or not. Thread-safety: any thread. */
DSCONV_API size_t dsconv_backend_count(void);

/**
 * Describes known backend `index` (0 .. dsconv_backend_count()-1). Opens the backend's module, if
 * it is one, but creates no context on any device. Thread-safety: any thread.
 */
DSCONV_API dsconv_status dsconv_backend_query(size_t index, dsconv_backend_info *info);

/**
 * Describes one device of a backend. Errors: UNKNOWN_BACKEND, UNAVAILABLE with the reason,
 * INVALID_ARGUMENT when `device` is not below its device_count. Thread-safety: any thread.
 */
DSCONV_API dsconv_status dsconv_device_query(const char *backend, int32_t device,
                                             dsconv_device_info *info);

/* ---- context ----------------------------------------------------------------------------- */

typedef enum dsconv_log_level {
    DSCONV_LOG_OFF = 0,
    DSCONV_LOG_ERROR = 1,
    DSCONV_LOG_INFO = 2,
    DSCONV_LOG_DEBUG = 3
} dsconv_log_level;

/** Receives one line without a newline. May be called from any thread that uses the context. */
typedef void (*dsconv_log_fn)(void *user, dsconv_log_level level, const char *text);

typedef struct dsconv_context_params {
    size_t struct_size;
    const char *backend; /* name, or "auto"; NULL: DSCONV_BACKEND, and "auto" when that is unset */
    int32_t device;      /* index from 0 */
    int32_t threads;     /* CPU threads, at most 1024; 0: OpenMP's count at creation. A run inside a
                          * parallel region or in a forked child takes one whatever this says */
    dsconv_log_fn log;   /* may be NULL: nothing is logged */
    void *log_user;
} dsconv_context_params;
#define DSCONV_CONTEXT_PARAMS_INIT                                                                 \
    { sizeof(dsconv_context_params), NULL, 0, 0, NULL, NULL }

/**
 * Opens a backend on a device. A backend named by the argument or by DSCONV_BACKEND never falls
 * back to another; "auto" takes the first of cuda, hip and cpu that has a usable device.
 * Reads DSCONV_BACKEND, DSCONV_BACKEND_DIR (an absolute path, searched first for modules) and
 * DSCONV_LOG (off, error, info, debug; error when unset).
 * params may be NULL for the defaults. On success the caller owns *context and releases it with
 * dsconv_context_destroy(); on failure *context is NULL.
 * Errors: UNKNOWN_BACKEND with the known names, UNAVAILABLE with the reason, INVALID_ARGUMENT,
 * OUT_OF_MEMORY, DEVICE. Thread-safety: any thread.
 */
DSCONV_API dsconv_status dsconv_context_create(const dsconv_context_params *params,
                                               dsconv_context **context);

/** Releases the caller's hold; the backend closes when the last plan is gone too. NULL is fine. */
DSCONV_API void dsconv_context_destroy(dsconv_context *context);

/** Name of the backend in use, such as "cpu"; valid as long as the context. */
DSCONV_API const char *dsconv_context_backend(const dsconv_context *context);

/** Describes the device in use. Thread-safety: any thread. */
DSCONV_API dsconv_status dsconv_context_device(const dsconv_context *context,
                                               dsconv_device_info *info);

/** Name of the backend's algorithm `index`, or NULL past the last. Static storage. */
DSCONV_API const char *dsconv_context_algo(const dsconv_context *context, size_t index);

/**
 * Tells whether a plan for this problem would be made. algo: NULL for the backend's own choice.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED with the reason. Thread-safety: any thread.
 */
DSCONV_API dsconv_status dsconv_supports(const dsconv_context *context,
                                         const dsconv_problem *problem, const char *algo);

/* ---- memory ------------------------------------------------------------------------------ */

typedef enum dsconv_copy_kind {
    DSCONV_HOST_TO_DEVICE = 0,
    DSCONV_DEVICE_TO_HOST = 1,
    DSCONV_DEVICE_TO_DEVICE = 2
} dsconv_copy_kind;

/** Allocates device memory (host memory on a CPU), aligned to 256 bytes. size 0 gives NULL. The
 *  caller owns *pointer and gives it to dsconv_free(). Errors: OUT_OF_MEMORY, DEVICE. */
DSCONV_API dsconv_status dsconv_alloc(dsconv_context *context, size_t size, void **pointer);

/** Frees what dsconv_alloc() of this context gave; NULL is fine. */
DSCONV_API void dsconv_free(dsconv_context *context, void *pointer);

/** Copies `size` bytes in the order of `stream`; host memory may be reused on return. Errors:
 *  INVALID_ARGUMENT, DEVICE. */
DSCONV_API dsconv_status dsconv_copy(dsconv_context *context, void *destination, const void *source,
                                     size_t size, dsconv_copy_kind kind, void *stream);

/** Waits until the work in `stream` (cudaStream_t or hipStream_t; NULL: the default) is done and
 *  reports what failed in it. At once on a CPU. */
DSCONV_API dsconv_status dsconv_synchronize(dsconv_context *context, void *stream);

/* ---- plan -------------------------------------------------------------------------------- */

typedef struct dsconv_plan_params {
    size_t struct_size;
    const char *algo;        /* an algorithm by name, such as "fused"; NULL: the backend chooses */
    int32_t flush_denormals; /* CPU: treat subnormal numbers as zero while running; 0: keep them */
} dsconv_plan_params;
#define DSCONV_PLAN_PARAMS_INIT                                                                    \
    { sizeof(dsconv_plan_params), NULL, 0 }

/**
 * Makes a plan. params may be NULL. On success the caller owns *plan; it keeps the context alive.
 * Errors: INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY, DEVICE. Thread-safety: any thread.
 */
DSCONV_API dsconv_status dsconv_plan_create(dsconv_context *context, const dsconv_problem *problem,
                                            const dsconv_plan_params *params, dsconv_plan **plan);

/** Releases a plan; no run of it may be in progress. NULL is fine. */
DSCONV_API void dsconv_plan_destroy(dsconv_plan *plan);

typedef enum dsconv_memory { DSCONV_MEMORY_HOST = 0, DSCONV_MEMORY_DEVICE = 1 } dsconv_memory;

typedef struct dsconv_weights {
    size_t struct_size;
    const void *w_dw;     /* [c*multiplier][r][s] */
    const void *w_pw;     /* [k][c*multiplier] */
    const void *bias_dw;  /* [c*multiplier]; NULL exactly when problem.bias has no DSCONV_BIAS_DW */
    const void *bias_pw;  /* [k]; NULL exactly when problem.bias has no DSCONV_BIAS_PW */
    dsconv_memory memory; /* where the four lie; on a CPU both mean host memory */
} dsconv_weights;
#define DSCONV_WEIGHTS_INIT                                                                        \
    { sizeof(dsconv_weights), NULL, NULL, NULL, NULL, DSCONV_MEMORY_HOST }

/**
 * Packs the weights into the plan, once; the caller may free them on return. Waits for the device.
 * Errors: INVALID_ARGUMENT, STATE when weights were set before, OUT_OF_MEMORY, DEVICE.
 * Thread-safety: not at the same time as any other call on this plan; afterwards it is immutable.
 */
DSCONV_API dsconv_status dsconv_plan_set_weights(dsconv_plan *plan, const dsconv_weights *weights);

typedef struct dsconv_plan_info {
    size_t struct_size;
    const char *backend;
    const char *algo;   /* such as "fused" */
    const char *kernel; /* the kernel in it, such as "nchw_avx512" */
    int32_t uses_tf32;  /* whether pointwise operands are rounded to TF32 */
    int32_t reserved;
    int64_t p, q;
    double flops, compulsory_bytes; /* as in dsconv_problem_info */
    size_t workspace_size;          /* bytes that run needs; depends on the plan alone */
} dsconv_plan_info;
#define DSCONV_PLAN_INFO_INIT                                                                      \
    { sizeof(dsconv_plan_info), NULL, NULL, NULL, 0, 0, 0, 0, 0.0, 0.0, 0 }

/** Says what a plan will do. The strings live as long as the plan. Thread-safety: any thread. */
DSCONV_API dsconv_status dsconv_plan_query(const dsconv_plan *plan, dsconv_plan_info *info);

typedef struct dsconv_run_params {
    size_t struct_size;
    const void *x;
    void *y;               /* not x */
    const void *residual;  /* NULL exactly when the problem has none; may be y with y's strides */
    void *mid;             /* NULL exactly when the problem does not output it */
    void *workspace;       /* any alignment; NULL when workspace_size is 0 */
    size_t workspace_size; /* at least dsconv_plan_info.workspace_size */
    void *stream;          /* cudaStream_t or hipStream_t; ignored on a CPU */
} dsconv_run_params;
#define DSCONV_RUN_PARAMS_INIT                                                                     \
    { sizeof(dsconv_run_params), NULL, NULL, NULL, NULL, NULL, 0, NULL }

/**
 * Runs a plan on the caller's tensors, with no copy, allocation or synchronisation; on a GPU it
 * only enqueues into `stream` and may be captured into a graph. Pointers need only the alignment
 * of an element. With n = 0 it succeeds and touches nothing.
 * Errors: INVALID_ARGUMENT naming the pointer or size, STATE before weights are set or in a forked
 * child of a process that opened a GPU, DEVICE.
 * Thread-safety: any number of threads and streams at once on one plan, each with a workspace of
 * its own.
 */
DSCONV_API dsconv_status dsconv_run(const dsconv_plan *plan, const dsconv_run_params *params);

/* ---- helpers ----------------------------------------------------------------------------- */

typedef struct dsconv_batch_norm {
    size_t struct_size;
    int64_t channels;             /* output channels of the stage: c*multiplier or k */
    int64_t terms;                /* weights per output channel: r*s or c*multiplier */
    const float *gamma;           /* [channels]; NULL: ones */
    const float *beta;            /* [channels]; NULL: zeros */
    const float *mean, *variance; /* [channels] */
    float epsilon;
} dsconv_batch_norm;
#define DSCONV_BATCH_NORM_INIT                                                                     \
    { sizeof(dsconv_batch_norm), 0, 0, NULL, NULL, NULL, NULL, 0.0F }

/**
 * Folds the batch norm that follows a stage into its weights [channels][terms] and bias [channels]:
 *   scale = gamma / sqrt(variance + epsilon); weights *= scale; bias = (bias - mean)*scale + beta
 * (Ioffe & Szegedy 2015, section 3.1), computed in double. Both are updated in place; bias must
 * exist (zeros for a stage that had none). Errors: INVALID_ARGUMENT, also where
 * variance + epsilon is not positive; nothing is written then. Thread-safety: any thread.
 */
DSCONV_API dsconv_status dsconv_fold_batch_norm(const dsconv_batch_norm *norm, float *weights,
                                                float *bias);

/** Text of the last failure in the calling thread, "" if none; valid until its next failure. */
DSCONV_API const char *dsconv_last_message(void);

/** Name of a status, such as "invalid argument". Static storage. */
DSCONV_API const char *dsconv_status_name(dsconv_status status);

/** Version of the library in use, as "major.minor.patch". Static storage. */
DSCONV_API const char *dsconv_version(void);

#ifdef __cplusplus
}
#endif

#endif
