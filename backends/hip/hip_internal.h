/* What the files of backend `hip` share. */
#ifndef DSCONV_HIP_INTERNAL_H
#define DSCONV_HIP_INTERNAL_H

#include "../gpu/gpu_internal.h"

#endif
