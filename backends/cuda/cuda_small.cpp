/* Launching the kernel of small.h, and its own order of weights. */
#include "cuda_internal.h"
#include "small_variant.h"

enum { SMALL_MOST_CLUSTER = 8, SMALL_MOST_SHARED = 112 * 1024 };

static const cuda_small_variant *const variants[CUDA_VARIANTS] = {
    &cuda_small_f32_strict, &cuda_small_f16_strict, &cuda_small_bf16_strict, &cuda_small_f32_tf32};

/* How a row of output is cut into runs, and the kernel's window for them. */
struct small_cut {
    int window;
    int64_t gap, row_runs;
};

/* Runs in a row, each of pixels `gap` apart; as many side by side interleave. */
static int64_t row_runs_of(int64_t columns, int64_t gap) {
    const int64_t group = SMALL_RUN * gap, rest = columns % group;
    return columns / group * gap + (rest < gap ? rest : gap);
}

/* Pixels of a run are one or two taps apart where that leaves few of them beyond the row. */
static small_cut cut_of(const gpu_conv *conv) {
    int64_t common = conv->stride_w, rest = conv->dil_w;
    while (rest != 0) {
        const int64_t next = common % rest;
        common = rest;
        rest = next;
    }
    const int64_t stride = conv->stride_w / common, gap = conv->dil_w / common;
    const int64_t row_runs = row_runs_of(conv->q, gap), fewest = row_runs_of(conv->q, 1);
    if (stride > 2 || row_runs > fewest + fewest / 2)
        return {SMALL_ANY, 1, fewest};
    const bool square = conv->r == conv->s && (conv->s == 3 || conv->s == 5);
    const int window = !square        ? SMALL_SLIDING_STRIDE_1
                       : conv->s == 3 ? SMALL_3_STRIDE_1
                                      : SMALL_5_STRIDE_1;
    return {window + (stride == 2), gap, row_runs};
}

static int64_t padded_channels(const gpu_conv *conv) {
    return gpu_ceil_div(conv->mid_channels, 64) * 64;
}

/* One more than the largest offset of an element in an image. */
static double span(const int64_t strides[4], double c, double h, double w) {
    return (c - 1) * strides[1] + (h - 1) * strides[2] + (w - 1) * strides[3] + 1;
}

bool cuda_small_applicable(const dsconv_shape *shape) {
    const dsconv_problem *pb = &shape->problem;
    const double limit = 0x1p30, reach = 0x1p29; /* reach: of windows beyond the image, too */
    const double k = (double)pb->k, p = (double)shape->p, q = (double)shape->q;
    const double mid = (double)shape->mid_channels, taps = (double)pb->r * pb->s;
    return span(pb->x_strides, (double)pb->c, (double)pb->h, (double)pb->w) < limit &&
           span(pb->y_strides, k, p, q) < limit && span(pb->residual_strides, k, p, q) < limit &&
           span(shape->mid_strides, mid, p, q) < limit && (mid + 64) * (taps + 1) < limit &&
           (k + 16) * (mid + 64) < limit &&
           (p + 1) * (double)pb->stride_h + (double)pb->r * (double)pb->dil_h < reach &&
           (q + 1) * (double)pb->stride_w + (double)pb->s * (double)pb->dil_w < reach;
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

static int64_t images_of(const gpu_conv *conv) {
    return conv->pixels / (conv->p * conv->q);
}

/* Runs of pixels in an image. */
static int64_t runs_of(const gpu_conv *conv) {
    return conv->p * cut_of(conv).row_runs;
}

/* Estimates a launch in microseconds, up to a constant: what a block does, times how often the
 * multiprocessors have to, of which each has two blocks at 1.4 times the pace of one. Fitted to 400
 * launches on an H200. */
static double cost(const gpu_context *context, const gpu_conv *conv, int pixels, int outputs,
                   bool split) {
    const double taps = (double)conv->r * conv->s, channels = (double)padded_channels(conv);
    int cluster;
    const double blocks =
        (double)gpu_ceil_div(images_of(conv) * runs_of(conv), pixels / SMALL_RUN) *
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
            small->kernel = (const void *)v->kernels[cut_of(conv).window][size];
        }
    }
    small->chunk = chunk_of(padded_channels(conv), small->pixels, v->split_mid);
    small->shared_size =
        small->chunk / SMALL_EIGHT * small_pitch(small->pixels, v->split_mid) * (int)sizeof(float);
    small->output_blocks = output_blocks_of(conv, small->outputs, &small->cluster);
    const size_t element = plan->dtype == DSCONV_F32 ? 4 : 2;
    const size_t channels = (size_t)padded_channels(conv);
    plan->packed_size = channels * ((size_t)conv->r * conv->s + 1) * 4 +
                        channels * (size_t)gpu_ceil_div(conv->k, 16) * 16 * element;
    /* Other plans with the same kernel may need more: the limit is that of all of them. */
    return cudaFuncSetAttribute(small->kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                SMALL_MOST_SHARED);
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
    args.out_bound = cuda_is_bound(conv->act_out);
    args.out_low = cuda_lower_bound(conv->act_out);
    args.out_high = cuda_upper_bound(conv->act_out);
    const small_cut cut = cut_of(conv);
    args.row_runs = small_divisor::of((int)cut.row_runs);
    args.rows = small_divisor::of((int)conv->p);
    args.gap = small_divisor::of((int)cut.gap);
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

gpuError_t cuda_small_pack(const gpu_plan *plan, const cuda_small *small) {
    const small_args args = arguments(plan, small, &plan->conv);
    const int64_t taps = args.channels * ((int64_t)plan->conv.r * plan->conv.s + 1);
    const int64_t weights = args.channels * gpu_ceil_div(plan->conv.k, 16) * 16;
    gpuError_t error =
        gpu_launch(pack_taps_kernel, gpu_ceil_div(taps, SMALL_THREADS), SMALL_THREADS, 0, args);
    if (error == cudaSuccess)
        error = gpu_launch(small->variant->pack_weights, gpu_ceil_div(weights, SMALL_THREADS),
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

static const void *advance(const void *at, int64_t bytes) {
    return at ? (const char *)at + bytes : NULL;
}

/* Launches for the images from `first` on. */
static gpuError_t launch_images(const gpu_plan *plan, const cuda_small *small, small_args args,
                                int64_t first, int64_t images, gpuStream_t stream) {
    gpu_conv *conv = &args.conv;
    const int64_t skipped = first * (plan->dtype == DSCONV_F32 ? 4 : 2);
    conv->x = advance(conv->x, skipped * conv->xs.n);
    conv->residual = advance(conv->residual, skipped * conv->rs.n);
    conv->y = (void *)advance(conv->y, skipped * conv->ys.n);
    conv->mid = (void *)advance(conv->mid, skipped * conv->ms.n);
    args.runs = (int)(images * runs_of(conv));
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

gpuError_t cuda_small_launch(const gpu_plan *plan, const cuda_small *small, const gpu_conv *conv,
                             gpuStream_t stream) {
    small_args args = arguments(plan, small, conv);
    const gpu_strides *xs = &conv->xs, *ys = &conv->ys;
    args.words = xs->c == 1 && conv->multiplier == 1 && conv->mid_channels % SMALL_EIGHT == 0 &&
                 aligned(plan, conv->x, plan->dtype == DSCONV_F32 ? 4 : 8, xs->n, xs->h, xs->w);
    args.groups = xs->w == 1 && conv->w % 4 == 0 && conv->pad_left == (conv->s - 1) / 2 &&
                  conv->dil_w == 1 && aligned(plan, conv->x, 4, xs->n, xs->h, xs->c);
    args.pairs = ys->c == 1 && aligned(plan, conv->y, 2, ys->n, ys->h, ys->w);
    /* Runs and blocks of a launch are numbered in 31 bits: a batch may take several. */
    const int64_t images = images_of(conv), limit = (int64_t)1 << 30;
    const int64_t most = limit / (runs_of(conv) * small->output_blocks);
    const int64_t step = most < 1 ? 1 : most;
    gpuError_t error = cudaSuccess;
    for (int64_t n = 0; n < images && error == cudaSuccess; n += step)
        error = launch_images(plan, small, args, n, images - n < step ? images - n : step, stream);
    return error;
}
