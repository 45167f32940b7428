/* What the files of backend `hip` share. */
#ifndef DSCONV_HIP_INTERNAL_H
#define DSCONV_HIP_INTERNAL_H

#include "../gpu/gpu_internal.h"

extern gpu_algo hip_algo_fused;

#endif
