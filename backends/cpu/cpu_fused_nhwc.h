/* The NHWC path for algorithms that bring their own team of threads. */
#ifndef DSCONV_CPU_FUSED_NHWC_H
#define DSCONV_CPU_FUSED_NHWC_H

#include "cpu_internal.h"

/** The part of one thread in a run of a plan made by dsconv_cpu_algo_fused_nhwc. Thread t uses the
 * t-th part of plan->threads of the workspace. */
void dsconv_cpu_fused_nhwc_part(const cpu_plan *plan, const dsconv_run_params *params, int thread,
                                int threads);

#endif
