/*
 * The peers on a CUDA device: two cuDNN convolutions, in the caller's layout and in the other, as
 * if the caller had the tensors so; of each the fastest algorithm that cuDNN finds. Biases,
 * activations and a residual are not counted against cuDNN: it is let off them.
 *
 * cuDNN is opened at run time, its entries declared here: the bench is built without it.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "peers.h"

enum { LAYOUT_NCHW, LAYOUT_NHWC };
enum { TYPE_F32 = 0, TYPE_F16 = 2, TYPE_BF16 = 9 };
enum { MATH_TENSOR_OP = 1, MATH_TENSOR_OP_CONVERSION = 2, MATH_FMA = 3 };
enum { CROSS_CORRELATION = 1 };
enum { ALGORITHMS = 8, WORKSPACE_SIZE = 256 << 20 };

/* The order is cuDNN's. NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding) */
typedef struct found_algorithm {
    int algorithm, status;
    float milliseconds;
    size_t workspace_size;
    int deterministic, math, reserved[3];
} found_algorithm;

/* Entries of libcudnn in the order of `entry_names`; 0 is success in all of them. */
typedef struct entries {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*tensor_create)(void **tensor);
    int (*tensor_set)(void *tensor, int layout, int type, int n, int c, int h, int w);
    int (*tensor_destroy)(void *tensor);
    int (*filter_create)(void **filter);
    int (*filter_set)(void *filter, int type, int layout, int k, int c, int r, int s);
    int (*filter_destroy)(void *filter);
    int (*conv_create)(void **conv);
    int (*conv_set)(void *conv, int pad_h, int pad_w, int stride_h, int stride_w, int dil_h,
                    int dil_w, int mode, int type);
    int (*conv_set_groups)(void *conv, int groups);
    int (*conv_set_math)(void *conv, int math);
    int (*conv_destroy)(void *conv);
    int (*find)(void *handle, void *x_tensor, const void *x, void *filter, const void *w,
                void *conv, void *y_tensor, void *y, int most, int *count, found_algorithm *found,
                void *workspace, size_t workspace_size);
    int (*forward)(void *handle, const float *alpha, void *x_tensor, const void *x, void *filter,
                   const void *w, void *conv, int algorithm, void *workspace, size_t workspace_size,
                   const float *beta, void *y_tensor, void *y);
} entries;

static const char *const entry_names[] = {
    "cudnnCreate",
    "cudnnDestroy",
    "cudnnCreateTensorDescriptor",
    "cudnnSetTensor4dDescriptor",
    "cudnnDestroyTensorDescriptor",
    "cudnnCreateFilterDescriptor",
    "cudnnSetFilter4dDescriptor",
    "cudnnDestroyFilterDescriptor",
    "cudnnCreateConvolutionDescriptor",
    "cudnnSetConvolution2dDescriptor",
    "cudnnSetConvolutionGroupCount",
    "cudnnSetConvolutionMathType",
    "cudnnDestroyConvolutionDescriptor",
    "cudnnFindConvolutionForwardAlgorithmEx",
    "cudnnConvolutionForward",
};
enum { ENTRIES = sizeof entry_names / sizeof *entry_names };
_Static_assert(sizeof(entries) == ENTRIES * sizeof(void (*)(void)), "one name per entry");

typedef struct convolution {
    void *filter, *conv, *weights; /* weights: in the device's memory */
    found_algorithm algorithm;
} convolution;

typedef struct cudnn_pair {
    void *library;
    entries dnn;
    void *handle;
    void *tensor[3]; /* x, mid, y */
    convolution half[2];
    void *mid, *workspace;
} cudnn_pair;

static const char *const libraries[] = {"libcudnn.so.9", "libcudnn.so.8"};

static bool load(cudnn_pair *pair) {
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && !pair->library; i++)
        pair->library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    void **entry = (void **)&pair->dnn;
    for (int i = 0; pair->library && i < ENTRIES; i++)
        if ((entry[i] = dlsym(pair->library, entry_names[i])) == NULL)
            return false;
    return pair->library != NULL;
}

/* cuDNN has one padding for both sides, int extents, and no strides that it would run fast. */
static bool can_describe(const dsconv_problem *p, const dsconv_problem_info *info) {
    const int64_t extents[] = {p->n, p->c,    p->h,    p->w,
                               p->k, info->p, info->q, p->c * p->multiplier};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++)
        if (extents[i] > INT_MAX)
            return false;
    for (int i = 0; i < 4; i++)
        if (p->x_strides[i] || p->y_strides[i])
            return false;
    return p->pad_top == p->pad_bottom && p->pad_left == p->pad_right && p->pad_top < INT_MAX &&
           p->pad_left < INT_MAX && p->dtype <= DSCONV_BF16;
}

static bool is_plain(const dsconv_problem *p) {
    return p->act_mid.kind == DSCONV_ACT_NONE && p->act_out.kind == DSCONV_ACT_NONE && !p->bias &&
           p->residual == DSCONV_RESIDUAL_NONE && !p->output_mid;
}

static int describe(cudnn_pair *pair, const bench_job *job, int layout) {
    static const int types[] = {TYPE_F32, TYPE_F16, TYPE_BF16};
    const dsconv_problem *p = &job->problem;
    const int type = types[p->dtype], mid = (int)(p->c * p->multiplier);
    const int math = p->dtype != DSCONV_F32     ? MATH_TENSOR_OP
                     : p->math == DSCONV_STRICT ? MATH_FMA
                                                : MATH_TENSOR_OP_CONVERSION;
    const entries *dnn = &pair->dnn;
    convolution *dw = &pair->half[0], *pw = &pair->half[1];
    int error = dnn->create(&pair->handle);
    for (int i = 0; i < 3; i++)
        error |= dnn->tensor_create(&pair->tensor[i]);
    for (int i = 0; i < 2; i++)
        error |= dnn->filter_create(&pair->half[i].filter) | dnn->conv_create(&pair->half[i].conv);
    if (error)
        return error;
    error |=
        dnn->tensor_set(pair->tensor[0], layout, type, (int)p->n, (int)p->c, (int)p->h, (int)p->w);
    error |= dnn->tensor_set(pair->tensor[1], layout, type, (int)p->n, mid, (int)job->info.p,
                             (int)job->info.q);
    error |= dnn->tensor_set(pair->tensor[2], layout, type, (int)p->n, (int)p->k, (int)job->info.p,
                             (int)job->info.q);
    error |= dnn->filter_set(dw->filter, type, layout, mid, 1, (int)p->r, (int)p->s);
    error |= dnn->filter_set(pw->filter, type, layout, (int)p->k, mid, 1, 1);
    error |=
        dnn->conv_set(dw->conv, (int)p->pad_top, (int)p->pad_left, (int)p->stride_h,
                      (int)p->stride_w, (int)p->dil_h, (int)p->dil_w, CROSS_CORRELATION, TYPE_F32);
    error |= dnn->conv_set(pw->conv, 0, 0, 1, 1, 1, 1, CROSS_CORRELATION, TYPE_F32);
    error |= dnn->conv_set_groups(dw->conv, (int)p->c);
    error |= dnn->conv_set_math(dw->conv, math) | dnn->conv_set_math(pw->conv, math);
    return error;
}

static dsconv_status allocate(cudnn_pair *pair, const bench_library *l) {
    static const tensor_name names[] = {W_DW, W_PW};
    static const size_t element[] = {4, 2, 2};
    const bench_job *job = l->tensors->job;
    const size_t mid = (size_t)(job->problem.n * job->problem.c * job->problem.multiplier *
                                job->info.p * job->info.q) *
                       element[job->problem.dtype];
    dsconv_status status = dsconv_alloc(l->context, mid, &pair->mid);
    if (status == DSCONV_OK)
        status = dsconv_alloc(l->context, WORKSPACE_SIZE, &pair->workspace);
    for (int i = 0; i < 2 && status == DSCONV_OK; i++) {
        const size_t size = l->tensors->size[names[i]];
        status = dsconv_alloc(l->context, size, &pair->half[i].weights);
        if (status == DSCONV_OK)
            status = dsconv_copy(l->context, pair->half[i].weights, l->tensors->data[names[i]],
                                 size, DSCONV_HOST_TO_DEVICE, NULL);
    }
    return status;
}

/* The fastest algorithm that keeps to the problem's math; false where there is none. */
static bool choose(cudnn_pair *pair, int half, const void *from, void *to, bool strict) {
    convolution *c = &pair->half[half];
    found_algorithm found[ALGORITHMS];
    int count = 0;
    if (pair->dnn.find(pair->handle, pair->tensor[half], from, c->filter, c->weights, c->conv,
                       pair->tensor[half + 1], to, ALGORITHMS, &count, found, pair->workspace,
                       WORKSPACE_SIZE))
        return false;
    for (int i = 0; i < count; i++)
        if (found[i].status == 0 && found[i].workspace_size <= WORKSPACE_SIZE &&
            (!strict || found[i].math == MATH_FMA)) {
            c->algorithm = found[i];
            return pair->dnn.conv_set_math(c->conv, found[i].math) == 0;
        }
    return false;
}

static int run_half(const cudnn_pair *pair, int half, const void *from, void *to) {
    const float one = 1.0F, zero = 0.0F;
    const convolution *c = &pair->half[half];
    return pair->dnn.forward(pair->handle, &one, pair->tensor[half], from, c->filter, c->weights,
                             c->conv, c->algorithm.algorithm, pair->workspace, WORKSPACE_SIZE,
                             &zero, pair->tensor[half + 1], to);
}

static dsconv_status run(void *self, dsconv_message *message) {
    const bench_peer *peer = self;
    const cudnn_pair *pair = peer->handle;
    const bench_library *l = peer->owner->library;
    int error = run_half(pair, 0, l->data[X], pair->mid);
    if (!error)
        error = run_half(pair, 1, pair->mid, l->data[Y]);
    if (!error)
        return DSCONV_OK;
    (void)snprintf(message->text, sizeof message->text, "cuDNN: status %d", error);
    return DSCONV_ERROR_DEVICE;
}

static void destroy(bench_peer *peer) {
    cudnn_pair *pair = peer->handle;
    dsconv_context *context = peer->owner->library->context;
    const entries *dnn = &pair->dnn;
    for (int i = 0; i < 2; i++) {
        dsconv_free(context, pair->half[i].weights);
        if (pair->half[i].filter)
            (void)dnn->filter_destroy(pair->half[i].filter);
        if (pair->half[i].conv)
            (void)dnn->conv_destroy(pair->half[i].conv);
    }
    for (int i = 0; i < 3; i++)
        if (pair->tensor[i])
            (void)dnn->tensor_destroy(pair->tensor[i]);
    if (pair->handle)
        (void)dnn->destroy(pair->handle);
    dsconv_free(context, pair->mid);
    dsconv_free(context, pair->workspace);
    if (pair->library)
        (void)dlclose(pair->library);
    free(pair);
}

/* Adds the peer of one layout, unless cuDNN is not there or cannot do the problem. */
static dsconv_status add(bench_peers *peers, int layout) {
    static const char *const names[] = {"cuDNN, NCHW", "cuDNN, NHWC"};
    const bench_library *l = peers->library;
    const bench_job *job = l->tensors->job;
    const bool own_layout =
        layout == (job->problem.layout == DSCONV_NCHW ? LAYOUT_NCHW : LAYOUT_NHWC);
    const bool strict = job->problem.dtype == DSCONV_F32 && job->problem.math == DSCONV_STRICT;
    cudnn_pair *pair = calloc(1, sizeof *pair);
    if (!pair)
        return DSCONV_ERROR_OUT_OF_MEMORY;
    bench_peer *peer = &peers->item[peers->count];
    *peer = (bench_peer){.name = names[layout],
                         .comparable = true,
                         .checkable = own_layout && is_plain(&job->problem),
                         .call = {run, peer},
                         .handle = pair,
                         .destroy = destroy,
                         .owner = peers};
    dsconv_status status = DSCONV_OK;
    bool able = load(pair) && !describe(pair, job, layout);
    if (able)
        status = allocate(pair, l);
    able = able && status == DSCONV_OK && choose(pair, 0, l->data[X], pair->mid, strict) &&
           choose(pair, 1, pair->mid, l->data[Y], strict);
    (void)snprintf(peer->kernel, sizeof peer->kernel, "algorithms %d and %d",
                   pair->half[0].algorithm.algorithm, pair->half[1].algorithm.algorithm);
    if (able)
        peers->count++;
    else
        destroy(peer);
    return status;
}

dsconv_status peers_open_cudnn(bench_peers *peers, dsconv_message *message) {
    (void)message;
    const bench_job *job = peers->library->tensors->job;
    dsconv_status status = DSCONV_OK;
    for (int layout = LAYOUT_NCHW; layout <= LAYOUT_NHWC && status == DSCONV_OK; layout++)
        if (can_describe(&job->problem, &job->info))
            status = add(peers, layout);
    return status;
}
