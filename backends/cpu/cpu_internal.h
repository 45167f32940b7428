/*
 * The CPU backend inside: one plan type, one table of algorithms, one table of kernels per
 * instruction set.
 */
#ifndef DSCONV_CPU_INTERNAL_H
#define DSCONV_CPU_INTERNAL_H

#include <stdbool.h>

#include "dsconv/backend.h"

typedef struct cpu_algo cpu_algo;
typedef struct cpu_plan cpu_plan;
typedef struct cpu_kernels cpu_kernels;

typedef struct cpu_context {
    int threads;
    const cpu_kernels *kernels; /* the best instruction set that this processor has */
} cpu_context;

enum { CPU_PLAN_BLOCKS = 8 };

struct cpu_plan {
    const cpu_algo *algo;
    const char *kernel; /* set by the algorithm's create */
    const cpu_kernels *kernels;
    dsconv_shape shape;
    int threads; /* upper bound of the threads of a run */
    bool flush_denormals;
    size_t workspace_size;        /* set by the algorithm's create */
    void *data;                   /* the algorithm's own */
    void *block[CPU_PLAN_BLOCKS]; /* of dsconv_cpu_plan_alloc */
    int blocks;
    bool out_of_memory; /* one of them was not to be had */
};

/** Weights as the algorithms see them: fp32 whatever the problem's dtype. */
typedef struct cpu_weights {
    const float *w_dw, *bias_dw, *w_pw, *bias_pw; /* a bias is NULL where the problem has none */
} cpu_weights;

/** One way to compute a problem. Rows that share a name are tried in order. */
struct cpu_algo {
    const char *name;

    /* NULL when the algorithm takes the problem, else why not. */
    const char *(*refuse)(const cpu_context *context, const dsconv_shape *shape);

    /* Whether auto takes it, asked in the table's order after refuse. May not look at n or at the
     * number of threads: y must not depend on them. NULL: always. */
    bool (*prefer)(const cpu_context *context, const dsconv_shape *shape);

    /* Sets plan->kernel, workspace_size and data. destroy follows in any case; NULL: all there is
     * to release comes from dsconv_cpu_plan_alloc. */
    dsconv_status (*create)(cpu_plan *plan, dsconv_message *message);
    void (*destroy)(cpu_plan *plan);

    dsconv_status (*set_weights)(cpu_plan *plan, const cpu_weights *weights,
                                 dsconv_message *message);

    /* workspace is aligned to 256 bytes. */
    dsconv_status (*run)(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message);
};

extern const cpu_algo dsconv_cpu_algo_fused_planes, dsconv_cpu_algo_fused_nchw,
    dsconv_cpu_algo_fused_nhwc, dsconv_cpu_algo_onednn, dsconv_cpu_algo_generic;

/** Number of threads that a run of this plan starts with here and now: 1 inside a parallel region
 *  and in a forked child. */
int dsconv_cpu_threads(const cpu_plan *plan);

/**
 * Calls work(arguments, thread, threads) in every thread of a team, with subnormals flushed if the
 * plan says so. A barrier is allowed in work only when threads > 1.
 */
typedef void (*cpu_work)(const void *arguments, int thread, int threads);
void dsconv_cpu_parallel(const cpu_plan *plan, cpu_work work, const void *arguments);

/** Waits for the whole team. */
void dsconv_cpu_barrier(void);

/** Part `index` of `count` of [0, total): *begin .. *end. */
static inline void cpu_share(int64_t total, int index, int count, int64_t *begin, int64_t *end) {
    int64_t each = total / count, rest = total % count;
    *begin = each * index + (index < rest ? index : rest);
    *end = *begin + each + (index < rest);
}

static inline int64_t minimum(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int64_t maximum(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/** Without a sum that could overflow. */
static inline int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b > 0);
}

static inline int64_t round_up(int64_t a, int64_t multiple) {
    return ceil_div(a, multiple) * multiple;
}

/** Zeroed memory aligned to 256 bytes, room behind it for one vector; NULL when out of memory or
 *  count * size does not fit. Release with free(). */
void *dsconv_cpu_alloc(int64_t count, size_t size);

/** The same until dsconv_cpu_plan_release(); without memory, plan->out_of_memory is set. */
void *dsconv_cpu_plan_alloc(cpu_plan *plan, int64_t count, size_t size);

/** Releases what the algorithm holds for a plan; the plan itself is the caller's. */
void dsconv_cpu_plan_release(cpu_plan *plan);

/** Converts count elements between a storage type and floats. */
void dsconv_cpu_to_float(float *destination, const void *source, int64_t count, dsconv_dtype type);
void dsconv_cpu_from_float(void *destination, const float *source, int64_t count,
                           dsconv_dtype type);

/** Whether this process was forked after the library was loaded; the core's. */
int dsconv_in_forked_child(void);

dsconv_status dsconv_cpu_out_of_memory(dsconv_message *message);

#endif
