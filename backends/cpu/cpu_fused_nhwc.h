/* The NHWC path for algorithms that bring their own team of threads. */
#ifndef DSCONV_CPU_FUSED_NHWC_H
#define DSCONV_CPU_FUSED_NHWC_H

#include "cpu_internal.h"

/** For algorithms whose x and y are not in NHWC: a thread's tiles get their input and give away
 *  their output one by one, in the order of images and pixels. */
typedef struct nhwc_exchange {
    void *self;
    /* Writes input rows begin ... end-1 of image n to where they belong in params->x. */
    void (*bring)(void *self, int64_t n, int64_t begin, int64_t end);
    /* Takes `pixels` pixels of image n from `first` on, channels k0 ... k1-1, which begin at
     * params->y. */
    void (*take)(void *self, int64_t n, int64_t first, int64_t pixels, int64_t k0, int64_t k1);
} nhwc_exchange;

/** The part of one thread in a run of a plan made by dsconv_cpu_algo_fused_nhwc, whose strides from
 * image to image are 0. Thread t uses the t-th part of plan->threads of the workspace. */
void dsconv_cpu_fused_nhwc_part(const cpu_plan *plan, const dsconv_run_params *params,
                                const nhwc_exchange *exchange, int thread, int threads);

/** Most pixels of a tile of such a plan. */
int64_t dsconv_cpu_fused_nhwc_most_pixels(const cpu_plan *plan);

#endif
