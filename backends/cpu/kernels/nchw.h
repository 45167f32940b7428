/*
 * The fused NCHW algorithm as its kernels see it. A tile is `rows` output rows by `cols` columns
 * of one image. The depthwise stage writes it as D[channel][pixel] in fp32, the pointwise stage
 * multiplies D by panels of PW_ROWS output channels. D never leaves the cache.
 */
#ifndef DSCONV_CPU_NCHW_H
#define DSCONV_CPU_NCHW_H

#include <stdbool.h>

#include "dsconv/backend.h"
#include "epilogue.h"

typedef struct nchw_plan {
    dsconv_shape shape;
    int64_t rows, cols; /* of a full tile */
    int64_t tiles_p, tiles_q;
    bool flat;     /* a tile's rows follow each other in D and in y without a gap */
    bool shared;   /* all threads work on the same tile, else each on its own */
    int64_t pitch; /* floats from one channel of D to the next */

    /* Input rows of a tile, one slot each: tap r of output row p is in slot p*step_p + r*step_r.
     * A slot holds the row's columns split by column mod stride_w, zeros outside the image. */
    bool together; /* slots are consecutive rows, else each tap has rows of its own */
    int64_t slots, step_p, step_r;
    int64_t slot_pitch, phase_pitch; /* floats */
    int64_t *tap;                    /* [s]: where tap s of output column 0 is in a slot */
    float *zeros;                    /* a row outside the image */

    float *w_dw, *bias_dw, *bias_pw;
    float *w_pw;      /* [k / PW_ROWS][channel][PW_ROWS], zero padded */
    bool *non_finite; /* [channel]: a depthwise weight is Inf or NaN, no zero may meet it */
    epilogue mid, out;

    size_t d_size, scratch_size; /* bytes, of a multiple of 256 */
} nchw_plan;

typedef struct nchw_run {
    const nchw_plan *plan;
    const dsconv_run_params *params;
    bool stream; /* y is stored past the caches */
} nchw_run;

typedef struct nchw_tile {
    int64_t n, p, q;    /* image, first row and column */
    int64_t rows, cols; /* extent */
    int64_t pitch;      /* from one row of D to the next */
} nchw_tile;

/** What one thread does of a nchw_run; a cpu_work. */
typedef void nchw_work_fn(const void *run, int thread, int threads);
extern nchw_work_fn dsconv_nchw_work_avx512, dsconv_nchw_work_avx2, dsconv_nchw_work_portable;

#endif
