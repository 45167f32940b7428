/*
 * Backend `ref`: the definition in dsconv.h as loops, every sum in double. It is what the other
 * backends are tested against, so it is plain rather than fast and shares no code with them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include <dsconv/backend.h>

extern const dsconv_backend dsconv_backend_ref;

/* The core's: GNU's OpenMP hangs in a forked child. */
int dsconv_in_forked_child(void);

typedef struct ref_handle {
    int threads;
} ref_handle;

typedef struct ref_plan {
    dsconv_shape shape;
    int threads;
    double *weights; /* one block, cut into the next four */
    double *w_dw, *w_pw, *bias_dw, *bias_pw;
} ref_plan;

static const char *const ref_algos[] = {"naive", NULL};

/* Storage types. */

static double f16_to_double(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    double value;
    if (exponent == 31)
        value = fraction != 0.0 ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -24);
    else
        value = ldexp(1024.0 + fraction, exponent - 25);
    return bits >> 15 ? -value : value;
}

static double bf16_to_double(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* Rounds to `precision` significant bits, none below 2^lowest, ties to even. */
static double round_to(double value, int precision, int lowest) {
    int exponent;
    if (value == 0.0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    const int last = exponent - precision > lowest ? exponent - precision : lowest;
    return ldexp(nearbyint(ldexp(value, -last)), last);
}

static uint16_t double_to_f16(double value) {
    const unsigned sign = signbit(value) ? 0x8000U : 0U;
    const double magnitude = fabs(round_to(value, 11, -24));
    unsigned bits;
    int exponent;
    if (isnan(value))
        bits = 0x7e00U;
    else if (magnitude >= 65536.0)
        bits = 0x7c00U;
    else if (magnitude < 0x1p-14)
        bits = (unsigned)ldexp(magnitude, 24);
    else {
        const double fraction = frexp(magnitude, &exponent);
        bits = ((unsigned)(exponent + 14) << 10) + (unsigned)ldexp(fraction, 11) - 1024U;
    }
    return (uint16_t)(sign | bits);
}

static uint16_t double_to_bf16(double value) {
    const float rounded = (float)round_to(value, 8, -133);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(isnan(value) ? 0x7fc0U : bits >> 16);
}

static double load(const void *tensor, dsconv_dtype dtype, int64_t index) {
    if (dtype == DSCONV_F32)
        return (double)((const float *)tensor)[index];
    const uint16_t bits = ((const uint16_t *)tensor)[index];
    return dtype == DSCONV_F16 ? f16_to_double(bits) : bf16_to_double(bits);
}

static void store(void *tensor, dsconv_dtype dtype, int64_t index, double value) {
    if (dtype == DSCONV_F32)
        ((float *)tensor)[index] = (float)value;
    else
        ((uint16_t *)tensor)[index] =
            dtype == DSCONV_F16 ? double_to_f16(value) : double_to_bf16(value);
}

/* Activations; comparisons are written so that a NaN stays one. */

static double clamp06(double v) {
    if (v < 0.0)
        return 0.0;
    return v > 6.0 ? 6.0 : v;
}

static double sigmoid(double v) {
    return 1.0 / (1.0 + exp(-v));
}

static double activate(dsconv_activation activation, double v) {
    switch (activation.kind) {
    case DSCONV_ACT_NONE:
        return v;
    case DSCONV_ACT_RELU:
        return v < 0.0 ? 0.0 : v;
    case DSCONV_ACT_RELU6:
        return clamp06(v);
    case DSCONV_ACT_LEAKY_RELU:
        return v > 0.0 ? v : (double)activation.alpha * v;
    case DSCONV_ACT_SILU:
        return v * sigmoid(v);
    case DSCONV_ACT_HARDSWISH:
        return v * clamp06(v + 3.0) / 6.0;
    case DSCONV_ACT_HARDSIGMOID:
        return clamp06(v + 3.0) / 6.0;
    case DSCONV_ACT_SIGMOID:
        return sigmoid(v);
    case DSCONV_ACT_GELU:
        return v / 2.0 * (1.0 + erf(v / sqrt(2.0)));
    case DSCONV_ACT_GELU_TANH:
        return v / 2.0 * (1.0 + tanh(sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
    }
    return v;
}

/* The two stages at one pixel. */

typedef struct pixel {
    int64_t n, p, q;
} pixel;

static int64_t offset_of(const int64_t strides[4], pixel at, int64_t channel) {
    return at.n * strides[0] + channel * strides[1] + at.p * strides[2] + at.q * strides[3];
}

static double depthwise(const ref_plan *plan, const void *x, pixel at, int64_t channel) {
    const dsconv_problem *problem = &plan->shape.problem;
    const double *taps = plan->w_dw + channel * problem->r * problem->s;
    double sum = plan->bias_dw[channel];
    for (int64_t r = 0; r < problem->r; r++) {
        const int64_t h = at.p * problem->stride_h + r * problem->dil_h - problem->pad_top;
        if (h < 0 || h >= problem->h)
            continue;
        for (int64_t s = 0; s < problem->s; s++) {
            const int64_t w = at.q * problem->stride_w + s * problem->dil_w - problem->pad_left;
            if (w < 0 || w >= problem->w)
                continue;
            const pixel tap = {at.n, h, w};
            const int64_t index = offset_of(problem->x_strides, tap, channel / problem->multiplier);
            sum += load(x, problem->dtype, index) * taps[r * problem->s + s];
        }
    }
    return activate(problem->act_mid, sum);
}

static double pointwise(const ref_plan *plan, const void *residual, const double *mid, pixel at,
                        int64_t k) {
    const dsconv_problem *problem = &plan->shape.problem;
    const double *weights = plan->w_pw + k * plan->shape.mid_channels;
    double sum = plan->bias_pw[k];
    for (int64_t j = 0; j < plan->shape.mid_channels; j++)
        sum += mid[j] * weights[j];
    if (problem->residual == DSCONV_RESIDUAL_NONE)
        return activate(problem->act_out, sum);
    const double added =
        load(residual, problem->dtype, offset_of(problem->residual_strides, at, k));
    if (problem->residual == DSCONV_RESIDUAL_BEFORE_ACT)
        return activate(problem->act_out, sum + added);
    return activate(problem->act_out, sum) + added;
}

static void run_pixel(const ref_plan *plan, const dsconv_run_params *params, pixel at,
                      double *mid) {
    const dsconv_problem *problem = &plan->shape.problem;
    for (int64_t j = 0; j < plan->shape.mid_channels; j++) {
        mid[j] = depthwise(plan, params->x, at, j);
        if (problem->output_mid)
            store(params->mid, problem->dtype, offset_of(plan->shape.mid_strides, at, j), mid[j]);
    }
    for (int64_t k = 0; k < problem->k; k++)
        store(params->y, problem->dtype, offset_of(problem->y_strides, at, k),
              pointwise(plan, params->residual, mid, at, k));
}

/* The vtable. */

static int default_threads(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static dsconv_status ref_probe(int32_t device, dsconv_device_info *info, dsconv_message *message) {
    if (device != 0) {
        snprintf(message->text, sizeof message->text, "device %d: ref has only device 0", device);
        return DSCONV_ERROR_INVALID_ARGUMENT;
    }
    snprintf(info->name, sizeof info->name, "CPU, double-precision loops");
    snprintf(info->arch, sizeof info->arch, "portable");
    info->device_count = 1;
    info->compute_units = default_threads();
    info->memory_size = 0;
    return DSCONV_OK;
}

static dsconv_status ref_open(int32_t device, int32_t threads, void **handle,
                              dsconv_message *message) {
    (void)device;
    ref_handle *ref = malloc(sizeof *ref);
    if (ref == NULL) {
        snprintf(message->text, sizeof message->text, "out of memory for the handle");
        return DSCONV_ERROR_OUT_OF_MEMORY;
    }
    ref->threads = threads > 0 ? threads : default_threads();
    *handle = ref;
    return DSCONV_OK;
}

static void ref_close(void *handle) {
    free(handle);
}

static dsconv_status ref_alloc(void *handle, size_t size, void **pointer, dsconv_message *message) {
    (void)handle;
    if (posix_memalign(pointer, 256, size) == 0)
        return DSCONV_OK;
    *pointer = NULL;
    snprintf(message->text, sizeof message->text, "out of memory for %zu bytes", size);
    return DSCONV_ERROR_OUT_OF_MEMORY;
}

static void ref_free(void *handle, void *pointer) {
    (void)handle;
    free(pointer);
}

static dsconv_status ref_copy(void *handle, void *destination, const void *source, size_t size,
                              dsconv_copy_kind kind, void *stream, dsconv_message *message) {
    (void)handle;
    (void)kind;
    (void)stream;
    (void)message;
    memmove(destination, source, size);
    return DSCONV_OK;
}

static dsconv_status ref_supports(void *handle, const dsconv_shape *shape, const char *algo,
                                  dsconv_message *message) {
    (void)handle;
    if (algo != NULL && strcmp(algo, ref_algos[0]) != 0) {
        snprintf(message->text, sizeof message->text, "algo '%.100s': ref has only '%s'", algo,
                 ref_algos[0]);
        return DSCONV_ERROR_INVALID_ARGUMENT;
    }
    if (shape->problem.dtype == DSCONV_I8) {
        snprintf(message->text, sizeof message->text, "dtype i8 is not supported");
        return DSCONV_ERROR_UNSUPPORTED;
    }
    return DSCONV_OK;
}

static dsconv_status ref_plan_create(void *handle, const dsconv_shape *shape,
                                     const dsconv_plan_params *params, void **plan,
                                     dsconv_backend_plan_info *info, dsconv_message *message) {
    (void)params;
    ref_plan *made = calloc(1, sizeof *made);
    if (made == NULL) {
        snprintf(message->text, sizeof message->text, "out of memory for the plan");
        return DSCONV_ERROR_OUT_OF_MEMORY;
    }
    made->shape = *shape;
    made->threads = ((const ref_handle *)handle)->threads;
    *plan = made;
    info->algo = ref_algos[0];
    info->kernel = "naive";
    info->uses_tf32 = 0;
    info->workspace_size =
        (size_t)made->threads * (size_t)shape->mid_channels * sizeof(double); /* mid per thread */
    return DSCONV_OK;
}

static void ref_plan_destroy(void *handle, void *plan) {
    (void)handle;
    free(((ref_plan *)plan)->weights);
    free(plan);
}

/* Absent tensors stay zero. */
static double *unpack(double *destination, const void *source, dsconv_dtype dtype, int64_t count) {
    for (int64_t i = 0; source != NULL && i < count; i++)
        destination[i] = load(source, dtype, i);
    return destination;
}

static dsconv_status ref_set_weights(void *handle, void *plan, const dsconv_weights *weights,
                                     dsconv_message *message) {
    (void)handle;
    ref_plan *ref = plan;
    const dsconv_problem *problem = &ref->shape.problem;
    const int64_t channels = ref->shape.mid_channels;
    const int64_t taps = channels * problem->r * problem->s;
    const int64_t products = problem->k * channels;
    double *block = calloc((size_t)(taps + products + channels + problem->k), sizeof *block);
    if (block == NULL) {
        snprintf(message->text, sizeof message->text, "out of memory for the weights");
        return DSCONV_ERROR_OUT_OF_MEMORY;
    }
    ref->weights = block;
    ref->w_dw = unpack(block, weights->w_dw, problem->dtype, taps);
    ref->w_pw = unpack(block + taps, weights->w_pw, problem->dtype, products);
    ref->bias_dw = unpack(ref->w_pw + products, weights->bias_dw, problem->dtype, channels);
    ref->bias_pw = unpack(ref->bias_dw + channels, weights->bias_pw, problem->dtype, problem->k);
    return DSCONV_OK;
}

static dsconv_status ref_run(void *handle, const void *plan, const dsconv_run_params *params,
                             dsconv_message *message) {
    (void)handle;
    (void)message;
    const ref_plan *ref = plan;
    const int64_t p = ref->shape.p, q = ref->shape.q;
    const int64_t pixels = ref->shape.problem.n * p * q;
#ifdef _OPENMP
#pragma omp parallel num_threads(dsconv_in_forked_child() ? 1 : ref->threads)
#endif
    {
        double *mid = params->workspace;
#ifdef _OPENMP
        mid += omp_get_thread_num() * ref->shape.mid_channels;
#pragma omp for schedule(static)
#endif
        for (int64_t i = 0; i < pixels; i++)
            run_pixel(ref, params, (pixel){i / (p * q), i / q % p, i % q}, mid);
    }
    return DSCONV_OK;
}

static dsconv_status ref_sync(void *handle, void *stream, dsconv_message *message) {
    (void)handle;
    (void)stream;
    (void)message;
    return DSCONV_OK;
}

const dsconv_backend dsconv_backend_ref = {
    .abi = DSCONV_BACKEND_ABI,
    .struct_size = sizeof(dsconv_backend),
    .name = "ref",
    .flags = DSCONV_BACKEND_HOST_MEMORY | DSCONV_BACKEND_SURVIVES_FORK,
    .algos = ref_algos,
    .probe = ref_probe,
    .open = ref_open,
    .close = ref_close,
    .alloc = ref_alloc,
    .free = ref_free,
    .copy = ref_copy,
    .supports = ref_supports,
    .plan_create = ref_plan_create,
    .plan_destroy = ref_plan_destroy,
    .set_weights = ref_set_weights,
    .run = ref_run,
    .sync = ref_sync,
};
