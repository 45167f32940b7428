/* The depthwise stage of one tile and one channel. */
#ifndef DSCONV_CPU_NCHW_DEPTHWISE_H
#define DSCONV_CPU_NCHW_DEPTHWISE_H

#include "nchw.h"
#include "vec.h"

/** Per thread: pointers to the slots of a tile, and the memory of those that are copies. */
typedef struct nchw_scratch {
    const float **slot;
    float *memory;
} nchw_scratch;

/** Writes rows [0, tile->rows) of channel j into d. x is the first element of the tensor. */
void CPU_NAME(nchw_depthwise)(const nchw_plan *plan, const nchw_tile *tile, const void *x,
                              int64_t j, const nchw_scratch *scratch, float *d);

#endif
