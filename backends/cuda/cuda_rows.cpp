/* Launching the kernel of sm90_rows.h, for tensors that the copy engine can address. */
#include <cudaTypedefs.h>
#include <math.h>

#include "cuda_internal.h"
#include "sm90_rows.h"

typedef sm90_rows_config<sm90_f32_strict, 1, 5, 2, 1, 104, 192> f32_strict;
typedef sm90_rows_config<sm90_f32_tf32, 1, 4, 4, 2, 104, 192> f32_tf32;
typedef sm90_rows_config<sm90_half<gpu_f16>, 2, 5, 2, 2, 112, 112> f16_strict;
typedef sm90_rows_config<sm90_half<gpu_bf16>, 2, 5, 2, 2, 112, 112> bf16_strict;

typedef void (*rows_kernel)(sm90_rows_args);

struct cuda_rows_variant {
    const char *name;
    rows_kernel kernel;
    int threads, shared_size, element, row;
    CUtensorMapDataType type;
};

static const cuda_rows_variant variants[CUDA_VARIANTS] = {
#define VARIANT(config, type)                                                                      \
    "sm90_rows_" #config, sm90_rows_kernel<config>, config::THREADS, (int)sizeof(config::shared),  \
        (int)sizeof(config::raw), config::ROW, type
    {VARIANT(f32_strict, CU_TENSOR_MAP_DATA_TYPE_FLOAT32)},
    {VARIANT(f16_strict, CU_TENSOR_MAP_DATA_TYPE_FLOAT16)},
    {VARIANT(bf16_strict, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)},
    {VARIANT(f32_tf32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32)},
#undef VARIANT
};

/* Whether the copy engine can address the tensor, given a pointer aligned to 16 bytes. */
static bool addressable(const int64_t strides[4], int64_t vector) {
    const int64_t limit = (int64_t)1 << 37;
    for (int i = 0; i < 3; i++)
        if (strides[i] % vector != 0 || strides[i] >= limit)
            return false;
    return strides[3] == 1;
}

bool cuda_is_bound(dsconv_activation act) {
    return act.kind <= DSCONV_ACT_RELU6;
}

bool cuda_rows_applicable(const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const int64_t vector = pb->dtype == DSCONV_F32 ? 4 : 8;
    const double limit = INT32_MAX / 2;
    const double extents[] = {(double)pb->n,
                              (double)pb->h,
                              (double)pb->w,
                              (double)pb->k,
                              (double)shape->p,
                              (double)shape->q,
                              (double)pb->pad_top,
                              (double)pb->n * (double)shape->p * (double)shape->q / SM90_PIXELS *
                                  ((double)pb->k / SM90_OUTPUTS + 1)};
    for (double extent : extents)
        if (extent > limit)
            return false;
    return pb->layout == DSCONV_NCHW && pb->r == 3 && pb->s == 3 && pb->stride_h == 1 &&
           pb->stride_w == 1 && pb->dil_h == 1 && pb->dil_w == 1 && pb->pad_left == 1 &&
           pb->c <= SM90_CHANNELS && pb->multiplier == 1 && cuda_is_bound(pb->act_mid) &&
           cuda_is_bound(pb->act_out) && pb->residual == DSCONV_RESIDUAL_NONE && !pb->output_mid &&
           addressable(pb->x_strides, vector) && addressable(pb->y_strides, vector);
}

/* Cuts the rows into bands so that the last wave of blocks is as full as can be; a band costs its
 * rows, two more to read, and about two to start. */
static int64_t choose_band_rows(int64_t rows, int64_t strips, int64_t units) {
    int64_t best = rows;
    double best_cost = 0;
    for (int64_t bands = 1; bands <= rows && bands <= 4096; bands++) {
        int64_t band_rows = gpu_ceil_div(rows, bands);
        double cost = (double)gpu_ceil_div(strips * bands, units) * (double)(band_rows + 4);
        if (bands == 1 || cost < best_cost) {
            best = band_rows;
            best_cost = cost;
        }
    }
    return best;
}

gpuError_t cuda_rows_prepare(const gpu_context *context, const gpu_plan *plan, int variant,
                             cuda_rows *rows) {
    const gpu_conv *conv = &plan->conv;
    rows->variant = &variants[variant];
    rows->encode = gpu_driver_entry("cuTensorMapEncodeTiled", 12000);
    if (!rows->encode)
        return cudaErrorSymbolNotFound;
    const int64_t batch = conv->pixels / (conv->p * conv->q);
    const int64_t strips =
        batch * gpu_ceil_div(conv->q, SM90_PIXELS) * gpu_ceil_div(conv->k, SM90_OUTPUTS);
    rows->band_rows = (int)choose_band_rows(conv->p, strips, context->compute_units);
    rows->bands = (int)gpu_ceil_div(conv->p, rows->band_rows);
    rows->blocks = strips * rows->bands;
    rows->batch = (int)batch;
    return cudaFuncSetAttribute((const void *)rows->variant->kernel,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                rows->variant->shared_size);
}

const char *cuda_rows_name(const cuda_rows *rows) {
    return rows->variant->name;
}

/* Describes a tensor to the copy engine, in boxes of `columns` x 1 x 64 channels x 1. */
static bool describe(const cuda_rows *rows, CUtensorMap *map, const void *base,
                     const int64_t extents[4], const gpu_strides *strides, int columns,
                     CUtensorMapSwizzle swizzle) {
    const cuuint64_t element = (cuuint64_t)rows->variant->element;
    cuuint64_t dims[4],
        pitches[3] = {(cuuint64_t)strides->h * element, (cuuint64_t)strides->c * element,
                      (cuuint64_t)strides->n * element};
    const cuuint32_t box[4] = {(cuuint32_t)columns, 1, 64, 1}, steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++)
        dims[i] = (cuuint64_t)extents[i];
    return (uintptr_t)base % 16 == 0 &&
           ((PFN_cuTensorMapEncodeTiled_v12000)rows->encode)(
               map, rows->variant->type, 4, (void *)base, dims, pitches, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

float cuda_lower_bound(dsconv_activation act) {
    return act.kind == DSCONV_ACT_NONE ? -INFINITY : 0.0F;
}

float cuda_upper_bound(dsconv_activation act) {
    return act.kind == DSCONV_ACT_RELU6 ? 6.0F : INFINITY;
}

bool cuda_rows_launch(const cuda_rows *rows, const gpu_conv *conv, gpuStream_t stream,
                      gpuError_t *error) {
    sm90_rows_args a;
    const int64_t x_extents[4] = {conv->w, conv->h, conv->mid_channels, rows->batch};
    const int64_t y_extents[4] = {conv->q, conv->p, conv->k, rows->batch};
    const CUtensorMapSwizzle y_swizzle =
        rows->variant->element == 4 ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B;
    if (!describe(rows, &a.x, conv->x, x_extents, &conv->xs, rows->variant->row,
                  CU_TENSOR_MAP_SWIZZLE_NONE) ||
        !describe(rows, &a.y, conv->y, y_extents, &conv->ys, SM90_PIXELS, y_swizzle))
        return false;
    a.weights = conv->weights;
    a.channels = (int)conv->mid_channels;
    a.outputs = (int)conv->k;
    a.height = (int)conv->h;
    a.width = (int)conv->w;
    a.out_height = (int)conv->p;
    a.pad_top = (int)conv->pad_top;
    a.strips = (int)gpu_ceil_div(conv->q, SM90_PIXELS);
    a.bands = rows->bands;
    a.band_rows = rows->band_rows;
    a.output_tiles = (int)gpu_ceil_div(conv->k, SM90_OUTPUTS);
    a.mid_low = cuda_lower_bound(conv->act_mid);
    a.mid_high = cuda_upper_bound(conv->act_mid);
    a.out_low = cuda_lower_bound(conv->act_out);
    a.out_high = cuda_upper_bound(conv->act_out);
    void *list[] = {&a};
    *error = cudaLaunchKernel((const void *)rows->variant->kernel, dim3((unsigned)rows->blocks),
                              dim3((unsigned)rows->variant->threads), list,
                              (size_t)rows->variant->shared_size, stream);
    return true;
}
