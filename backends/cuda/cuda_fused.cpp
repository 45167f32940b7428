/* Algorithm `fused`: the Hopper kernel of sm90_rows.h; tensors that its copies cannot address at
 * run time (not aligned to 16 bytes) take the portable kernel. */
#include <cudaTypedefs.h>
#include <math.h>

#include "cuda_internal.h"
#include "sm90_rows.h"

/* Strict math splits both operands in f32; 16-bit weights are exact in TF32 as they are. */
typedef sm90_rows_config<gpu_f32, true, true, 2, 1, 5, 2, 1> f32_strict;
typedef sm90_rows_config<gpu_f32, false, false, 8, 1, 4, 4, 2> f32_tf32;
typedef sm90_rows_config<gpu_f16, true, false, 2, 1, 6, 2, 2> f16_strict;
typedef sm90_rows_config<gpu_bf16, true, false, 2, 1, 6, 2, 2> bf16_strict;

typedef void (*rows_kernel)(sm90_rows_args);

static const struct variant {
    const char *name;
    rows_kernel kernel;
    int threads, shared_size, element, row;
    CUtensorMapDataType type;
} variants[] = {
#define VARIANT(config, type)                                                                      \
    "sm90_rows_" #config, sm90_rows_kernel<config>, config::THREADS, (int)sizeof(config::shared),  \
        (int)sizeof(config::raw), config::ROW, type
    {VARIANT(f32_strict, CU_TENSOR_MAP_DATA_TYPE_FLOAT32)},
    {VARIANT(f16_strict, CU_TENSOR_MAP_DATA_TYPE_FLOAT16)},
    {VARIANT(bf16_strict, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16)},
    {VARIANT(f32_tf32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32)},
#undef VARIANT
};
static const variant *const tf32_variant = &variants[3];

typedef struct fused_data {
    const variant *variant;
    PFN_cuTensorMapEncodeTiled_v12000 encode;
    int64_t blocks;
    int bands, band_rows, batch;
} fused_data;
static_assert(sizeof(fused_data) <= GPU_PLAN_DATA_SIZE, "plan data");

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a - 1) / b + 1;
}

/* Whether the copy engine can address the tensor, given a pointer aligned to 16 bytes. */
static bool addressable(const int64_t strides[4], int64_t vector) {
    const int64_t limit = (int64_t)1 << 37;
    for (int i = 0; i < 3; i++)
        if (strides[i] % vector != 0 || strides[i] >= limit)
            return false;
    return strides[3] == 1;
}

static bool is_bound(dsconv_activation act) {
    return act.kind <= DSCONV_ACT_RELU6;
}

static const char *refuse(const gpu_context *context, const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const int64_t vector = pb->dtype == DSCONV_F32 ? 4 : 8, limit = INT32_MAX / 2;
    if (context->capability != 90)
        return "needs compute capability 9.0";
    if (pb->layout != DSCONV_NCHW)
        return "layout nhwc is left to portable";
    if (pb->r != 3 || pb->s != 3 || pb->stride_h != 1 || pb->stride_w != 1 || pb->dil_h != 1 ||
        pb->dil_w != 1)
        return "needs a 3x3 kernel, stride 1, dilation 1";
    if (pb->pad_left != 1)
        return "needs pad_left 1";
    if (pb->c > SM90_CHANNELS || pb->multiplier != 1)
        return "needs at most 64 channels and multiplier 1";
    if (!is_bound(pb->act_mid) || !is_bound(pb->act_out))
        return "activations other than none, relu and relu6 are left to portable";
    if (pb->residual != DSCONV_RESIDUAL_NONE || pb->output_mid)
        return "residual and output of mid are left to portable";
    if (!addressable(pb->x_strides, vector) || !addressable(pb->y_strides, vector))
        return "needs x and y with rows, channels and images a multiple of 16 bytes apart";
    if (pb->n > limit || pb->h > limit || pb->w > limit || pb->k > limit || shape->p > limit ||
        shape->q > limit || pb->pad_top > limit ||
        (double)pb->n * (double)ceil_div(shape->q, SM90_PIXELS) *
                (double)ceil_div(pb->k, SM90_OUTPUTS) * (double)shape->p >
            (double)limit)
        return "extents beyond 32 bits are left to portable";
    return NULL;
}

/* Narrow images and few channels leave most of a strip idle. */
static bool prefer(const dsconv_shape *shape) {
    return shape->q >= 40 && shape->problem.c > 16;
}

/* Cuts the rows into bands so that the last wave of blocks is as full as can be; a band costs its
 * rows, two more to read, and about two to start. */
static int64_t choose_bands(int64_t rows, int64_t strips, int64_t units) {
    int64_t best = 1;
    double best_cost = 0;
    for (int64_t bands = 1; bands <= rows; bands++) {
        int64_t band_rows = ceil_div(rows, bands);
        if (ceil_div(rows, band_rows) != bands)
            continue;
        double cost = (double)ceil_div(strips * bands, units) * (double)(band_rows + 4);
        if (bands == 1 || cost < best_cost) {
            best = bands;
            best_cost = cost;
        }
    }
    return best;
}

static gpuError_t prepare(const gpu_context *context, gpu_plan *plan) {
    fused_data *data = (fused_data *)plan->data;
    const gpu_conv *conv = &plan->conv;
    const bool tf32 = plan->math == DSCONV_TF32 && plan->dtype == DSCONV_F32;
    data->variant = tf32 ? tf32_variant : &variants[plan->dtype];
    data->encode =
        (PFN_cuTensorMapEncodeTiled_v12000)cuda_driver_entry("cuTensorMapEncodeTiled", 12000);
    if (!data->encode)
        return cudaErrorSymbolNotFound;
    const int64_t batch = conv->pixels / (conv->p * conv->q);
    const int64_t strips = batch * ceil_div(conv->q, SM90_PIXELS) * ceil_div(conv->k, SM90_OUTPUTS);
    data->bands = (int)choose_bands(conv->p, strips, context->compute_units);
    data->band_rows = (int)ceil_div(conv->p, data->bands);
    data->blocks = strips * data->bands;
    data->batch = (int)batch;
    plan->kernel = data->variant->name;
    plan->uses_tf32 = tf32;
    return cudaFuncSetAttribute((const void *)data->variant->kernel,
                                cudaFuncAttributeMaxDynamicSharedMemorySize,
                                data->variant->shared_size);
}

/* Describes a tensor to the copy engine, in boxes of `columns` x 1 x 64 channels x 1. */
static bool describe(const fused_data *data, CUtensorMap *map, const void *base,
                     const int64_t extents[4], const gpu_strides *strides, int columns) {
    const cuuint64_t element = (cuuint64_t)data->variant->element;
    cuuint64_t dims[4],
        pitches[3] = {(cuuint64_t)strides->h * element, (cuuint64_t)strides->c * element,
                      (cuuint64_t)strides->n * element};
    const cuuint32_t box[4] = {(cuuint32_t)columns, 1, 64, 1}, steps[4] = {1, 1, 1, 1};
    for (int i = 0; i < 4; i++)
        dims[i] = (cuuint64_t)extents[i];
    return (uintptr_t)base % 16 == 0 &&
           data->encode(map, data->variant->type, 4, (void *)base, dims, pitches, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

static float lower_bound(dsconv_activation act) {
    return act.kind == DSCONV_ACT_NONE ? -INFINITY : 0.0F;
}

static float upper_bound(dsconv_activation act) {
    return act.kind == DSCONV_ACT_RELU6 ? 6.0F : INFINITY;
}

static gpuError_t launch(const gpu_plan *plan, const gpu_conv *conv, gpuStream_t stream) {
    const fused_data *data = (const fused_data *)plan->data;
    sm90_rows_args a;
    const int64_t x_extents[4] = {conv->w, conv->h, conv->mid_channels, data->batch};
    const int64_t y_extents[4] = {conv->q, conv->p, conv->k, data->batch};
    if (!describe(data, &a.x, conv->x, x_extents, &conv->xs, data->variant->row) ||
        !describe(data, &a.y, conv->y, y_extents, &conv->ys, SM90_PIXELS))
        return gpu_portable_launch(plan, conv, stream);
    a.weights = conv->weights;
    a.channels = (int)conv->mid_channels;
    a.outputs = (int)conv->k;
    a.height = (int)conv->h;
    a.width = (int)conv->w;
    a.out_height = (int)conv->p;
    a.pad_top = (int)conv->pad_top;
    a.strips = (int)ceil_div(conv->q, SM90_PIXELS);
    a.bands = data->bands;
    a.band_rows = data->band_rows;
    a.output_tiles = (int)ceil_div(conv->k, SM90_OUTPUTS);
    a.mid_low = lower_bound(conv->act_mid);
    a.mid_high = upper_bound(conv->act_mid);
    a.out_low = lower_bound(conv->act_out);
    a.out_high = upper_bound(conv->act_out);
    void *list[] = {&a};
    return cudaLaunchKernel((const void *)data->variant->kernel, dim3((unsigned)data->blocks),
                            dim3((unsigned)data->variant->threads), list,
                            (size_t)data->variant->shared_size, stream);
}

const gpu_algo cuda_algo_fused = {"fused", refuse, prefer, prepare, launch};
