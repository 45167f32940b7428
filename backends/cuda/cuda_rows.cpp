/* Launching the kernel of sm90_rows.h, for tensors that the copy engine can address. */
#include <cudaTypedefs.h>
#include <math.h>

#include "cuda_internal.h"
#include "sm90_rows.h"

template <bool ChannelsLast> struct configs {
    typedef sm90_rows_config<sm90_f32_strict, ChannelsLast, ChannelsLast ? 2 : 1, 5, 2, 1,
                             ChannelsLast ? 64 : 104, ChannelsLast ? 160 : 192>
        f32_strict;
    typedef sm90_rows_config<sm90_f32_tf32, ChannelsLast, 1, 4, 4, 2, 104, 192> f32_tf32;
    typedef sm90_rows_config<sm90_half<gpu_f16>, ChannelsLast, 2, 5, 2, 2, 104, 120> f16_strict;
    typedef sm90_rows_config<sm90_half<gpu_bf16>, ChannelsLast, 2, 5, 2, 2, 112, 112> bf16_strict;
};
typedef configs<false> nchw;
typedef configs<true> nhwc;

typedef void (*rows_kernel)(sm90_rows_args);

struct cuda_rows_variant {
    const char *name;
    rows_kernel kernel;
    int threads, shared_size, element;
    int row, box; /* columns that are read and outputs that are written at once */
    CUtensorMapDataType type;
};

template <class T> constexpr CUtensorMapDataType data_type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
template <> constexpr CUtensorMapDataType data_type<gpu_f16> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <> constexpr CUtensorMapDataType data_type<gpu_bf16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

static const cuda_rows_variant variants[2][CUDA_VARIANTS] = {
#define VARIANT(layout, config)                                                                    \
    {                                                                                              \
        "sm90_rows_" #config "_" #layout, sm90_rows_kernel<layout::config>,                        \
            layout::config::THREADS, (int)sizeof(layout::config::shared),                          \
            (int)sizeof(layout::config::raw), layout::config::ROW, layout::config::BOX,            \
            data_type<layout::config::T>                                                           \
    }
#define VARIANTS(layout)                                                                           \
    {                                                                                              \
        VARIANT(layout, f32_strict), VARIANT(layout, f16_strict), VARIANT(layout, bf16_strict),    \
            VARIANT(layout, f32_tf32)                                                              \
    }
    VARIANTS(nchw), VARIANTS(nhwc)
#undef VARIANTS
#undef VARIANT
};

/* Whether the copy engine can address the tensor, given a pointer aligned to 16 bytes. */
static bool addressable(const int64_t strides[4], dsconv_layout layout, int64_t vector) {
    const int64_t limit = (int64_t)1 << 37;
    const int innermost = layout == DSCONV_NHWC ? 1 : 3;
    for (int i = 0; i < 4; i++)
        if (i != innermost && (strides[i] % vector != 0 || strides[i] >= limit))
            return false;
    return strides[innermost] == 1;
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
    return pb->r == 3 && pb->s == 3 && pb->stride_h == 1 && pb->stride_w == 1 && pb->dil_h == 1 &&
           pb->dil_w == 1 && pb->pad_left == 1 && pb->c <= SM90_CHANNELS && pb->multiplier == 1 &&
           cuda_is_bound(pb->act_mid) && cuda_is_bound(pb->act_out) &&
           pb->residual == DSCONV_RESIDUAL_NONE && !pb->output_mid &&
           addressable(pb->x_strides, pb->layout, vector) &&
           addressable(pb->y_strides, pb->layout, vector);
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
    rows->variant = &variants[conv->channels_last][variant];
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

/* A tensor and a box of it, extents in the order w, h, c, n. */
struct tensor {
    const void *base;
    int64_t extents[4];
    const gpu_strides *strides;
    int columns, channels; /* of a box, which is of one row of one image */
};

/* Describes a tensor to the copy engine, innermost dimension first. */
static bool describe(const cuda_rows *rows, bool channels_last, CUtensorMap *map, const tensor &t,
                     CUtensorMapSwizzle swizzle) {
    static const int orders[2][4] = {{0, 1, 2, 3}, {2, 0, 1, 3}};
    const int64_t pitches[4] = {t.strides->w, t.strides->h, t.strides->c, t.strides->n};
    const int boxes[4] = {t.columns, 1, t.channels, 1};
    cuuint64_t dims[4], bytes[4];
    cuuint32_t box[4];
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++) {
        const int from = orders[channels_last][i];
        dims[i] = (cuuint64_t)t.extents[from];
        bytes[i] = (cuuint64_t)(pitches[from] * rows->variant->element);
        box[i] = (cuuint32_t)boxes[from];
    }
    return (uintptr_t)t.base % 16 == 0 &&
           ((PFN_cuTensorMapEncodeTiled_v12000)rows->encode)(
               map, rows->variant->type, 4, (void *)t.base, dims, bytes + 1, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

float cuda_lower_bound(dsconv_activation act) {
    return cuda_is_bound(act) && act.kind != DSCONV_ACT_NONE ? 0.0F : -INFINITY;
}

float cuda_upper_bound(dsconv_activation act) {
    return act.kind == DSCONV_ACT_RELU6 ? 6.0F : INFINITY;
}

bool cuda_rows_launch(const cuda_rows *rows, const gpu_conv *conv, gpuStream_t stream,
                      gpuError_t *error) {
    sm90_rows_args a;
    const cuda_rows_variant &v = *rows->variant;
    const bool last = conv->channels_last != 0;
    const tensor x = {conv->x,
                      {conv->w, conv->h, conv->mid_channels, rows->batch},
                      &conv->xs,
                      v.row,
                      SM90_CHANNELS};
    const tensor y = {
        conv->y, {conv->q, conv->p, conv->k, rows->batch}, &conv->ys, SM90_PIXELS, v.box};
    const CUtensorMapSwizzle y_swizzle =
        last || v.element == 2 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE;
    if (!describe(rows, last, &a.x, x, CU_TENSOR_MAP_SWIZZLE_NONE) ||
        !describe(rows, last, &a.y, y, y_swizzle))
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
