/* The depthwise stage of a tile, one channel at a time. */
#ifndef DSCONV_CPU_NCHW_DEPTHWISE_H
#define DSCONV_CPU_NCHW_DEPTHWISE_H

#include "nchw.h"
#include "vec.h"

/** A range of a tile's columns. Its input rows are copies with zeros around the image, or lie in x
 *  where all taps of the range are inside the image. */
typedef struct nchw_part {
    int64_t begin, end;
    bool direct;
    int64_t x;           /* image column of a slot's first element */
    int64_t first, last; /* elements of a slot that are inside the image */
    int64_t pitch;       /* floats from slot to slot */
    float *memory;
    const float **slot;
} nchw_part;

/** What all channels of a tile share; the memory behind it is a thread's scratch. */
typedef struct nchw_depthwise {
    const nchw_plan *plan;
    const nchw_tile *tile;
    int64_t *row; /* [slot]: element offset of an input row in its plane, -1 outside the image */
    int64_t slots;
    int parts;
    nchw_part part[3];
    int64_t copied; /* input channel that the copies hold, -1 none */
} nchw_depthwise;

void CPU_NAME(nchw_depthwise_begin)(nchw_depthwise *state, const nchw_plan *plan,
                                    const nchw_tile *tile, void *scratch);

/** Writes all rows of channel j into d. x is the tensor's first element. */
void CPU_NAME(nchw_depthwise_channel)(nchw_depthwise *state, const void *x, int64_t j, float *d);

#endif
