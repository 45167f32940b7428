/*
 * The NHWC kernels: depthwise into a tile of mid, [pixel][channel] in fp32, and pointwise from
 * it. Each output is one FMA chain: taps in row-major order from the bias, those outside the image
 * skipped, then mid channels in order from the pointwise bias.
 */
#ifndef DSCONV_CPU_NHWC_H
#define DSCONV_CPU_NHWC_H

#include <stdbool.h>
#include <stdint.h>

#include "dsconv/dsconv.h"
#include "epilogue.h"

enum { NHWC_MAX_PIXELS = 14, NHWC_MAX_VECTORS = 4 };

/* The depthwise stage. Channel strides are 1; VL is that of the kernels. */
typedef struct nhwc_dw {
    int64_t h, w, c, mid_channels, multiplier;
    int64_t r, s, stride_h, stride_w, dil_h, dil_w, pad_top, pad_left;
    int64_t x_row, x_pixel; /* strides of x */
    int64_t pitch;          /* between pixels of the tile: mid_channels rounded up to VL, or more */
    int64_t inner_begin, inner_end; /* output columns whose window lies between the image's sides */
    dsconv_dtype dtype;
    bool finite; /* the weights are: they may be multiplied with zeros beside the image */
    bool clamp;  /* store min(max(sum, lo), hi) */
    float lo, hi;
    /* Mid channels in blocks of VL, the last of which ends with the last channel; fewer than VL
     * are padded with 0. */
    int64_t blocks;
    const float *weights;  /* [blocks][r][s][VL] */
    const float *bias;     /* [blocks][VL] */
    const int32_t *expand; /* [blocks][VL]: input channels, from that of a block's first on */
} nhwc_dw;

/* Computes output columns q0 ... q1-1 of row p, and with `rows` 2 also of row p + 1, whose pixels
 * lie next_row elements further on in `mid`. image: x of one image. */
typedef void nhwc_dw_fn(const nhwc_dw *d, const void *image, int64_t p, int rows, int64_t q0,
                        int64_t q1, float *mid, int64_t next_row);

/* One micro-kernel call: some pixels by some vectors of output channels. */
typedef struct nhwc_pw {
    int64_t mid_channels, pitch; /* of the tile */
    const float *weights;        /* [mid_channels][vectors][VL], padded with 0 */
    const float *bias;           /* [vectors][VL] */
    dsconv_dtype dtype;          /* of y */
    int last;                    /* channels in the last vector */
    bool clamp;
    float lo, hi;
} nhwc_pw;

typedef void nhwc_pw_fn(const nhwc_pw *a, const float *mid, void *y, int64_t y_pitch);

/* The depthwise kernel for d; *pairs tells whether it gains by two rows at a time. */
typedef nhwc_dw_fn *nhwc_select_dw_fn(const nhwc_dw *d, bool *pairs);
extern nhwc_select_dw_fn dsconv_nhwc_select_dw_avx512, dsconv_nhwc_select_dw_avx2,
    dsconv_nhwc_select_dw_portable;

typedef struct nhwc_kernels {
    int vector_length;
    int max_vectors;              /* of the widest micro-kernel */
    int pixels[NHWC_MAX_VECTORS]; /* most pixels of one with 1, 2, ... vectors */
    nhwc_pw_fn *pw[NHWC_MAX_VECTORS][NHWC_MAX_PIXELS]; /* [vectors - 1][pixels - 1] */
    nhwc_select_dw_fn *select_dw;
    epilogue_row_fn *epilogue_row;
} nhwc_kernels;
extern const nhwc_kernels dsconv_nhwc_kernels_avx512, dsconv_nhwc_kernels_avx2,
    dsconv_nhwc_kernels_portable;

#endif
