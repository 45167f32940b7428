/* Launching the kernel of small.h, and its own order of weights. */
#include "cuda_internal.h"
#include "small_variant.h"

enum { SMALL_MOST_CLUSTER = 8 };

static const cuda_small_variant *const variants[CUDA_VARIANTS] = {
    &cuda_small_f32_strict, &cuda_small_f16_strict, &cuda_small_bf16_strict, &cuda_small_f32_tf32};

static int window_of(const gpu_conv *conv) {
    const bool square = conv->r == conv->s && conv->dil_w == 1;
    if (square && (conv->s == 3 || conv->s == 5) && (conv->stride_w == 1 || conv->stride_w == 2))
        return (conv->s == 3 ? SMALL_3_STRIDE_1 : SMALL_5_STRIDE_1) + (conv->stride_w == 2);
    return conv->dil_w == 1 && conv->stride_w == 1 ? SMALL_SLIDING : SMALL_ANY;
}

static int64_t padded_channels(const gpu_conv *conv) {
    return gpu_ceil_div(conv->mid_channels, 64) * 64;
}

/* One more than the largest offset of an element. */
static double span(const int64_t strides[4], double n, double c, double h, double w) {
    return (n - 1) * strides[0] + (c - 1) * strides[1] + (h - 1) * strides[2] +
           (w - 1) * strides[3] + 1;
}

bool cuda_small_applicable(const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const double limit = 0x1p30; /* also of a window's reach beyond the image */
    const double n = (double)pb->n, k = (double)pb->k, p = (double)shape->p, q = (double)shape->q;
    const double mid = (double)shape->mid_channels, taps = (double)pb->r * pb->s;
    return span(pb->x_strides, n, (double)pb->c, (double)pb->h, (double)pb->w) < limit &&
           span(pb->y_strides, n, k, p, q) < limit &&
           span(pb->residual_strides, n, k, p, q) < limit &&
           span(shape->mid_strides, n, mid, p, q) < limit && (mid + 64) * (taps + 1) < limit &&
           (k + 16) * (mid + 64) < limit && (p + 1) * pb->stride_h + pb->r * pb->dil_h < limit &&
           (q + 1) * pb->stride_w + pb->s * pb->dil_w < limit;
}

/* The largest chunk of channels that leaves room for two blocks on a multiprocessor. */
static int chunk_of(int64_t channels, int pixels, bool split) {
    const int64_t most = 96 * 1024 / pixels / (split ? 8 : 4) / 64 * 64;
    return (int)(channels < most ? channels : most);
}

/* Blocks side by side along the outputs, in equal clusters. */
static int output_blocks_of(const gpu_conv *conv, int outputs, int *cluster) {
    const int blocks = (int)gpu_ceil_div(conv->k, outputs);
    const int clusters = (int)gpu_ceil_div(blocks, SMALL_MOST_CLUSTER);
    *cluster = (int)gpu_ceil_div(blocks, clusters);
    return clusters * *cluster;
}

/* Runs of pixels in all. */
static int64_t runs_of(const gpu_conv *conv) {
    return conv->pixels / conv->q * gpu_ceil_div(conv->q, SMALL_RUN);
}

/* Estimates a launch in microseconds, up to a constant: what a block does, times how often the
 * multiprocessors have to, of which each has two blocks at 1.4 times the pace of one. Fitted to 400
 * launches on an H200. */
static double cost(const gpu_context *context, const gpu_conv *conv, int pixels, int outputs,
                   bool split) {
    const double taps = (double)conv->r * conv->s, channels = (double)padded_channels(conv);
    int cluster;
    const double blocks = (double)gpu_ceil_div(runs_of(conv), pixels / SMALL_RUN) *
                          output_blocks_of(conv, outputs, &cluster);
    const double chunks =
        (double)gpu_ceil_div(padded_channels(conv), chunk_of(padded_channels(conv), pixels, split));
    const double depthwise = pixels * channels * taps / cluster * 45e-6;
    const double pointwise = channels * (pixels * 670e-6 + outputs * 64e-6);
    const double rounds = blocks / (1.4 * context->compute_units);
    return (chunks * (cluster > 1 ? 3.6 : 1.8) + depthwise + pointwise) * (rounds < 1 ? 1 : rounds);
}

gpuError_t cuda_small_prepare(const gpu_context *context, gpu_plan *plan, int variant,
                              cuda_small *small) {
    const gpu_conv *conv = &plan->conv;
    const cuda_small_variant *v = variants[variant];
    double best = 0;
    for (int size = 0; size < SMALL_SIZES; size++) {
        const int step = size == SMALL_64 ? 32 : 16; /* outputs of a warp */
        for (int outputs = step; outputs <= 128; outputs += step) {
            const double estimate = cost(context, conv, 8 << size, outputs, v->split_mid);
            if (small->variant && estimate >= best)
                continue;
            best = estimate;
            small->variant = v;
            small->pixels = 8 << size;
            small->outputs = outputs;
            small->kernel = (const void *)v->kernels[window_of(conv)][size];
        }
    }
    small->chunk = chunk_of(padded_channels(conv), small->pixels, v->split_mid);
    small->shared_size = small->chunk / SMALL_EIGHT *
                         (small->pixels * 4 * (v->split_mid ? 4 : 2) + 4) * (int)sizeof(float);
    small->output_blocks = output_blocks_of(conv, small->outputs, &small->cluster);
    const size_t element = plan->dtype == DSCONV_F32 ? 4 : 2;
    const size_t channels = (size_t)padded_channels(conv);
    plan->packed_size = channels * ((size_t)conv->r * conv->s + 1) * 4 +
                        channels * (size_t)gpu_ceil_div(conv->k, 16) * 16 * element;
    return cudaFuncSetAttribute(small->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                small->shared_size);
}

const char *cuda_small_name(const cuda_small *small) {
    return small->variant->name;
}

static small_args arguments(const gpu_plan *plan, const cuda_small *small, const gpu_conv *conv) {
    small_args args = {};
    args.conv = *conv;
    args.channels = (int)padded_channels(conv);
    args.chunk = small->chunk;
    args.outputs = small->outputs;
    args.output_blocks = small->output_blocks;
    args.cluster = small->cluster;
    args.mid_bound = cuda_is_bound(conv->act_mid);
    args.mid_low = cuda_lower_bound(conv->act_mid);
    args.mid_high = cuda_upper_bound(conv->act_mid);
    args.out_bound = cuda_is_bound(conv->act_out) && conv->residual_kind == DSCONV_RESIDUAL_NONE;
    args.out_low = cuda_lower_bound(conv->act_out);
    args.out_high = cuda_upper_bound(conv->act_out);
    args.runs = (int)runs_of(conv);
    args.row_runs = small_divisor::of((int)gpu_ceil_div(conv->q, SMALL_RUN));
    args.rows = small_divisor::of((int)conv->p);
    args.taps = (const float *)plan->packed;
    args.weights =
        (const uint4 *)(args.taps + (int64_t)args.channels * ((int64_t)conv->r * conv->s + 1));
    return args;
}

/* A thread an element of the taps. */
static __global__ void pack_taps_kernel(small_args s) {
    const gpu_conv &a = s.conv;
    const int64_t taps = (int64_t)a.r * a.s;
    const int64_t i = (int64_t)blockIdx.x * SMALL_THREADS + threadIdx.x;
    const int64_t tap = i / s.channels - 1, channel = i % s.channels;
    if (tap >= taps)
        return;
    float v = 0.0F;
    if (channel < a.mid_channels)
        v = tap < 0 ? a.weights.bias_dw[channel] : a.weights.dw[channel * taps + tap];
    const int64_t place = channel / SMALL_EIGHT * SMALL_EIGHT + channel % 4 * 2 + channel / 4 % 2;
    ((float *)s.taps)[i - channel + place] = v;
}

/* A thread an element of the pointwise weights. */
template <class T, bool ROUND> __global__ void pack_weights_kernel(small_args s) {
    const gpu_conv &a = s.conv;
    const int64_t i = (int64_t)blockIdx.x * SMALL_THREADS + threadIdx.x;
    const int64_t channel = i % s.channels, output = i / s.channels;
    if (output >= (a.k + 15) / 16 * 16)
        return;
    float v = 0.0F;
    if (channel < a.mid_channels && output < a.k)
        v = a.weights.pw[channel * a.k + output];
    const int lane = (int)(output % 16 / 2 * 4 + channel % 4);
    const int e = (int)(output % 2 + channel / 4 % 2 * 2);
    const int64_t place = output / 16 * 16 * s.channels +
                          small_fragments<T, 8>::place(channel / SMALL_EIGHT, lane, e);
    gpu_store<T>((void *)s.weights, place, ROUND ? round_tf32(v) : v);
}

static int variant_of(const gpu_plan *plan) {
    return plan->uses_tf32 ? CUDA_F32_TF32 : (int)plan->dtype;
}

gpuError_t cuda_small_pack(const gpu_plan *plan, const cuda_small *small) {
    static void (*const kernels[CUDA_VARIANTS])(small_args) = {
        pack_weights_kernel<gpu_f32, false>, pack_weights_kernel<gpu_f16, false>,
        pack_weights_kernel<gpu_bf16, false>, pack_weights_kernel<gpu_f32, true>};
    const small_args args = arguments(plan, small, &plan->conv);
    const int64_t taps = args.channels * ((int64_t)plan->conv.r * plan->conv.s + 1);
    const int64_t weights = args.channels * gpu_ceil_div(plan->conv.k, 16) * 16;
    gpuError_t error =
        gpu_launch(pack_taps_kernel, gpu_ceil_div(taps, SMALL_THREADS), SMALL_THREADS, 0, args);
    if (error == cudaSuccess)
        error = gpu_launch(kernels[variant_of(plan)], gpu_ceil_div(weights, SMALL_THREADS),
                           SMALL_THREADS, 0, args);
    return error;
}

/* Whether an address and strides are multiples of `count` elements. */
static bool aligned(const gpu_plan *plan, const void *at, int count, int64_t n, int64_t h,
                    int64_t w) {
    const int64_t size = plan->dtype == DSCONV_F32 ? 4 : 2;
    return n % count == 0 && h % count == 0 && w % count == 0 &&
           (uintptr_t)at % (size_t)(count * size < 16 ? count * size : 16) == 0;
}

gpuError_t cuda_small_launch(const gpu_plan *plan, const cuda_small *small, const gpu_conv *conv,
                             gpuStream_t stream) {
    small_args args = arguments(plan, small, conv);
    const gpu_strides *xs = &conv->xs, *ys = &conv->ys;
    args.words = xs->c == 1 && conv->multiplier == 1 && conv->mid_channels % SMALL_EIGHT == 0 &&
                 aligned(plan, conv->x, plan->dtype == DSCONV_F32 ? 4 : 8, xs->n, xs->h, xs->w);
    args.groups = xs->w == 1 && conv->w % 4 == 0 && conv->pad_left == (conv->s - 1) / 2 &&
                  aligned(plan, conv->x, 4, xs->n, xs->h, xs->c);
    args.pairs = ys->c == 1 && aligned(plan, conv->y, 2, ys->n, ys->h, ys->w);
    const int64_t blocks =
        gpu_ceil_div(args.runs, small->pixels / SMALL_RUN) * small->output_blocks;
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {(unsigned)small->cluster, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)blocks);
    config.blockDim = dim3(SMALL_THREADS);
    config.dynamicSmemBytes = (size_t)small->shared_size;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = small->cluster > 1;
    void *list[] = {&args};
    return cudaLaunchKernelExC(&config, small->kernel, list);
}
