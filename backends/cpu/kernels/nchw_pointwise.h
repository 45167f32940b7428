/* The pointwise stage: up to three vectors of pixels times PW_ROWS output channels. */
#ifndef DSCONV_CPU_NCHW_POINTWISE_H
#define DSCONV_CPU_NCHW_POINTWISE_H

#include "nchw.h"
#include "vec.h"

/* As many accumulators as the registers hold. */
#ifdef __AVX512F__
#define PW_ROWS 8
#else
#define PW_ROWS 4
#endif
#define PW_VECTORS 3

typedef struct panel {
    int64_t channels; /* of D */
    const float *w, *bias;
    const float *d;
    int64_t pitch;
    char *y;
    int64_t y_row;          /* bytes from one output channel to the next */
    int64_t at[PW_VECTORS]; /* bytes from y to where each vector goes */
    int64_t n[PW_VECTORS];  /* elements of each vector */
    int rows;               /* output channels */
    float low, high;
    bool clamp, stream;
} panel;

typedef void panel_fn(const panel *a);

/** By the storage type of y and the number of vectors - 1. */
extern panel_fn *const CPU_NAME(nchw_panel)[3][PW_VECTORS];

/** `pixels` of D for `blocks` times PW_ROWS output channels, which are the vector here:
 *  y[block][pixel][VL]. pixels * blocks is at most 4. */
void CPU_NAME(nchw_tail)(const panel *a, int pixels, int blocks, float *y);

#endif
