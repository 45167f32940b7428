/* Depthwise sums of several output rows of one channel, by kernel size and stride. */
#ifndef DSCONV_CPU_NCHW_ROWS_H
#define DSCONV_CPU_NCHW_ROWS_H

#include "nchw.h"
#include "vec.h"

typedef struct nchw_rows {
    const float *const *slot; /* input rows */
    int64_t x, width; /* image column of a slot's first element; columns outside [0, width) count
                         as zero and are not read */
    int64_t step_p, step_r;
    const int64_t *tap;
    const float *w;
    float bias, low, high;
    bool clamp;
    bool overrun; /* rows are one vector wide, and each may be written beyond its end */
    float *d;
    int64_t pitch, cols;
} nchw_rows;

typedef void nchw_rows_fn(const nchw_rows *a, const dsconv_problem *problem, int64_t count);

/** The function that writes `count` rows of d for this problem. *phases: it wants the columns of
 *  each remainder modulo the stride together, as plan->tap says. */
nchw_rows_fn *CPU_NAME(nchw_rows_for)(const dsconv_problem *problem, bool *phases);

#endif
