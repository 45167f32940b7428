/* What the files of backend `cuda` share. */
#ifndef DSCONV_CUDA_INTERNAL_H
#define DSCONV_CUDA_INTERNAL_H

#include "../gpu/gpu_internal.h"

extern const gpu_algo cuda_algo_fused;

/* An entry of the driver as of `version`, or NULL. The module is not linked to the driver. */
void *gpu_driver_entry(const char *name, unsigned version);

/* Variants of the Hopper kernels by arithmetic: the storage types, then f32 with TF32 products. */
enum { CUDA_F32_TF32 = 3, CUDA_VARIANTS };

/* Activations that are bounds; -INFINITY and INFINITY where there is none. */
bool cuda_is_bound(dsconv_activation act);
float cuda_lower_bound(dsconv_activation act);
float cuda_upper_bound(dsconv_activation act);

/* The kernel of sm90_rows.h for a plan; NULL where it does not apply. */
typedef struct cuda_rows {
    const struct cuda_rows_variant *variant;
    void *encode; /* of tensor maps: the driver's */
    int64_t blocks;
    int bands, band_rows, batch;
} cuda_rows;

bool cuda_rows_applicable(const dsconv_shape *shape);
gpuError_t cuda_rows_prepare(const gpu_context *context, const gpu_plan *plan, int variant,
                             cuda_rows *rows);
const char *cuda_rows_name(const cuda_rows *rows);

/* Whether the tensors' addresses suit the kernel; if so *error is that of the launch. */
bool cuda_rows_launch(const cuda_rows *rows, const gpu_conv *conv, gpuStream_t stream,
                      gpuError_t *error);

/* The kernel of small.h for a plan: sizes of a block, launch. */
typedef struct cuda_small {
    const struct cuda_small_variant *variant; /* NULL: not taken */
    const void *kernel;
    int pixels, outputs, output_blocks, cluster, chunk, shared_size;
} cuda_small;

bool cuda_small_applicable(const dsconv_shape *shape);
gpuError_t cuda_small_prepare(const gpu_context *context, gpu_plan *plan, int variant,
                              cuda_small *small);
const char *cuda_small_name(const cuda_small *small);
gpuError_t cuda_small_pack(const gpu_plan *plan, const cuda_small *small);
gpuError_t cuda_small_launch(const gpu_plan *plan, const cuda_small *small, const gpu_conv *conv,
                             gpuStream_t stream);

#endif
