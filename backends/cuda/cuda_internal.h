/* What the files of backend `cuda` share. */
#ifndef DSCONV_CUDA_INTERNAL_H
#define DSCONV_CUDA_INTERNAL_H

#include "../gpu/gpu_internal.h"

extern const gpu_algo cuda_algo_fused;

/* An entry of the driver as of `version`, or NULL. The module is not linked to the driver. */
void *cuda_driver_entry(const char *name, unsigned version);

#endif
