/* What every instruction set offers: one table each, the best one picked at run time. */
#ifndef DSCONV_CPU_KERNELS_H
#define DSCONV_CPU_KERNELS_H

#include "cpu_internal.h"
#include "kernels/planes.h"

struct nhwc_kernels;

struct cpu_kernels {
    const char *isa;
    int vector_length; /* floats per vector */

    void (*to_float)(float *destination, const void *source, int64_t count, dsconv_dtype type);
    void (*from_float)(void *destination, const float *source, int64_t count, dsconv_dtype type);

    const struct nhwc_kernels *nhwc;

    /* fused NCHW, small planes */
    const char *planes_name;
    planes_in_fn *planes_in;
    planes_out_fn *planes_out;

    /* fused NCHW */
    const char *nchw_name;
    int nchw_pw_rows; /* output channels in a panel of weights */
    cpu_work nchw_work;
};

extern const cpu_kernels dsconv_cpu_kernels_avx512, dsconv_cpu_kernels_avx2,
    dsconv_cpu_kernels_portable;

const cpu_kernels *dsconv_cpu_best_kernels(void);

#endif
