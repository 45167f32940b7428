/* The depthwise stage of a tile, one channel at a time. */
#ifndef DSCONV_CPU_NCHW_DEPTHWISE_H
#define DSCONV_CPU_NCHW_DEPTHWISE_H

#include "nchw_rows.h"

/** What all channels of a tile share; the memory behind it is a thread's scratch. Input rows are
 * read where they lie in x, or as floats from copies with zeros around the image. */
typedef struct nchw_depthwise {
    const nchw_plan *plan;
    const nchw_tile *tile;
    int64_t *row; /* [slot]: element offset of an input row in its plane, -1 outside the image */
    int64_t slots;
    bool direct, phases;
    int64_t x;           /* image column of a slot's first element */
    int64_t first, last; /* elements of a copy that are inside the image */
    float *memory[2];    /* copies of even and odd channels */
    const float **slot[2];
    int64_t loaded[2]; /* the channels, -1: none */
    nchw_rows_fn *rows;
    nchw_rows call; /* what all channels share is set */
} nchw_depthwise;

void CPU_NAME(nchw_depthwise_begin)(nchw_depthwise *state, const nchw_plan *plan,
                                    const nchw_tile *tile, void *scratch);

/** Brings input channel `channel` in reach. x is the tensor's first element. A load well before
 *  its use keeps the vectors stored here from being read again at once in other positions. */
void CPU_NAME(nchw_depthwise_load)(nchw_depthwise *state, const void *x, int64_t channel);

/** Writes all rows of channel j, whose input is loaded, into d. */
void CPU_NAME(nchw_depthwise_channel)(nchw_depthwise *state, const void *x, int64_t j, float *d);

#endif
