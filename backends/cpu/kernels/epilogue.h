/*
 * What follows a sum: residual before -> activation -> residual after -> conversion -> store. The
 * bias is not here, sums start from it. Kernels store f32 sums with act none, relu or relu6
 * directly (epilogue_clamp); everything else passes rows of sums through epilogue_row().
 */
#ifndef DSCONV_CPU_EPILOGUE_H
#define DSCONV_CPU_EPILOGUE_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "dsconv/dsconv.h"

typedef struct epilogue {
    dsconv_dtype dtype;
    dsconv_residual residual;
    dsconv_activation act;
} epilogue;

/* Whether y = min(max(sum, lo), hi), stored as f32, is all there is to do. */
static inline bool epilogue_clamp(const epilogue *e, float *lo, float *hi) {
    *lo = e->act.kind == DSCONV_ACT_NONE ? -INFINITY : 0.0F;
    *hi = e->act.kind == DSCONV_ACT_RELU6 ? 6.0F : INFINITY;
    return e->dtype == DSCONV_F32 && e->residual == DSCONV_RESIDUAL_NONE &&
           e->act.kind <= DSCONV_ACT_RELU6;
}

/* Finishes n contiguous sums. `residual` and y hold e->dtype; y may be the sums themselves (as
 * f32) or the residual. */
typedef void epilogue_row_fn(const epilogue *e, const float *sum, const void *residual, void *y,
                             int64_t n);
extern epilogue_row_fn dsconv_epilogue_row_avx512, dsconv_epilogue_row_avx2,
    dsconv_epilogue_row_portable;

#endif
