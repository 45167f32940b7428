#include "reference.h"

#include <math.h>
#include <stdlib.h>

static const double unit = 0x1p-24, tiny = 0x1p-149;

struct reference {
    dsconv_problem problem;
    tensor x, residual;
    bool tf32;
    int64_t mid_channels;
    double *w_dw, *w_pw, *bias_dw, *bias_pw;
};

static int64_t out_extent(int64_t size, int64_t pads, int64_t dilation, int64_t kernel,
                          int64_t stride) {
    return (size + pads - dilation * (kernel - 1) - 1) / stride + 1;
}

int64_t problem_mid_channels(const dsconv_problem *problem) {
    return problem->c * problem->multiplier;
}

static tensor output_view(const dsconv_problem *problem, int64_t channels, const int64_t *strides) {
    const int64_t p = out_extent(problem->h, problem->pad_top + problem->pad_bottom, problem->dil_h,
                                 problem->r, problem->stride_h);
    const int64_t q = out_extent(problem->w, problem->pad_left + problem->pad_right, problem->dil_w,
                                 problem->s, problem->stride_w);
    const int64_t dims[4] = {problem->n, channels, p, q};
    return tensor_view(problem->dtype, problem->layout, dims, strides);
}

tensor problem_x(const dsconv_problem *problem) {
    const int64_t dims[4] = {problem->n, problem->c, problem->h, problem->w};
    return tensor_view(problem->dtype, problem->layout, dims, problem->x_strides);
}

tensor problem_y(const dsconv_problem *problem) {
    return output_view(problem, problem->k, problem->y_strides);
}

tensor problem_residual(const dsconv_problem *problem) {
    return output_view(problem, problem->k, problem->residual_strides);
}

tensor problem_mid(const dsconv_problem *problem) {
    return output_view(problem, problem_mid_channels(problem), NULL);
}

static double *unpack(const void *data, dsconv_dtype dtype, int64_t count) {
    double *values = calloc((size_t)count, sizeof *values);
    for (int64_t i = 0; values != NULL && data != NULL && i < count; i++)
        values[i] = element_get(data, dtype, i);
    return values;
}

reference *reference_create(const dsconv_problem *problem, const inputs *in, bool tf32) {
    reference *ref = calloc(1, sizeof *ref);
    if (ref == NULL)
        return NULL;
    const int64_t channels = problem_mid_channels(problem);
    ref->problem = *problem;
    ref->x = in->x;
    ref->residual = in->residual;
    ref->tf32 = tf32;
    ref->mid_channels = channels;
    ref->w_dw = unpack(in->w_dw, problem->dtype, channels * problem->r * problem->s);
    ref->w_pw = unpack(in->w_pw, problem->dtype, problem->k * channels);
    ref->bias_dw = unpack(in->bias_dw, problem->dtype, channels);
    ref->bias_pw = unpack(in->bias_pw, problem->dtype, problem->k);
    if (ref->w_dw != NULL && ref->w_pw != NULL && ref->bias_dw != NULL && ref->bias_pw != NULL)
        return ref;
    reference_destroy(ref);
    return NULL;
}

void reference_destroy(reference *ref) {
    if (ref == NULL)
        return;
    free(ref->w_dw);
    free(ref->w_pw);
    free(ref->bias_dw);
    free(ref->bias_pw);
    free(ref);
}

/* min and max that keep a NaN. */
static double clamp(double v, double low, double high) {
    if (v < low)
        return low;
    return v > high ? high : v;
}

static double none(double v, double alpha) {
    (void)alpha;
    return v;
}

static double relu(double v, double alpha) {
    (void)alpha;
    return clamp(v, 0.0, HUGE_VAL);
}

static double relu6(double v, double alpha) {
    (void)alpha;
    return clamp(v, 0.0, 6.0);
}

static double leaky_relu(double v, double alpha) {
    return v > 0.0 ? v : alpha * v;
}

static double sigmoid(double v, double alpha) {
    (void)alpha;
    return 1.0 / (1.0 + exp(-v));
}

static double silu(double v, double alpha) {
    return v * sigmoid(v, alpha);
}

static double hardsigmoid(double v, double alpha) {
    (void)alpha;
    return clamp(v + 3.0, 0.0, 6.0) / 6.0;
}

static double hardswish(double v, double alpha) {
    return v * hardsigmoid(v, alpha);
}

static double gelu(double v, double alpha) {
    (void)alpha;
    return 0.5 * v * (1.0 + erf(v * M_SQRT1_2));
}

static double gelu_tanh(double v, double alpha) {
    (void)alpha;
    return 0.5 * v * (1.0 + tanh(M_2_SQRTPI * M_SQRT1_2 * (v + 0.044715 * v * v * v)));
}

/* Error of evaluation in units of 8 u. */
typedef enum gate { EXACT, ARGUMENT, ONE } gate;

typedef struct activation {
    double (*function)(double v, double alpha);
    double slope; /* largest; leaky_relu's is alpha, if that is larger */
    gate gate;
} activation;

static const activation activations[] = {
    [DSCONV_ACT_NONE] = {none, 1.0, EXACT},
    [DSCONV_ACT_RELU] = {relu, 1.0, EXACT},
    [DSCONV_ACT_RELU6] = {relu6, 1.0, EXACT},
    [DSCONV_ACT_LEAKY_RELU] = {leaky_relu, 1.0, ARGUMENT},
    [DSCONV_ACT_SILU] = {silu, 1.1, ARGUMENT},
    [DSCONV_ACT_HARDSWISH] = {hardswish, 1.5, ARGUMENT},
    [DSCONV_ACT_HARDSIGMOID] = {hardsigmoid, 1.0 / 6.0, ONE},
    [DSCONV_ACT_SIGMOID] = {sigmoid, 0.25, ONE},
    [DSCONV_ACT_GELU] = {gelu, 1.13, ARGUMENT},
    [DSCONV_ACT_GELU_TANH] = {gelu_tanh, 1.13, ARGUMENT},
};

/* Takes a point of a sum through an activation. An infinite sum has no rounding error. */
static point activate(dsconv_activation a, point sum) {
    const activation *act = &activations[a.kind];
    const double alpha = (double)a.alpha;
    const double slope = a.kind == DSCONV_ACT_LEAKY_RELU ? fmax(1.0, fabs(alpha)) : act->slope;
    const double scale[] = {[EXACT] = 0.0, [ARGUMENT] = slope * fabs(sum.value), [ONE] = 1.0};
    if (isinf(sum.value))
        sum.bound = sum.slack = 0.0;
    const double evaluation = isinf(sum.value) ? 0.0 : 8.0 * unit * scale[act->gate];
    return (point){
        .value = act->function(sum.value, alpha),
        .bound = slope * sum.bound + evaluation,
        .slack = slope * sum.slack + evaluation,
        .chain = (float)act->function((double)sum.chain, alpha),
    };
}

static double gamma_of(int64_t operations) {
    const double m = (double)operations * unit;
    return m / (1.0 - m);
}

static point depthwise(const reference *ref, int64_t n, int64_t j, int64_t p, int64_t q) {
    const dsconv_problem *problem = &ref->problem;
    const int64_t taps = problem->r * problem->s, channel = j / problem->multiplier;
    const double *weights = ref->w_dw + j * taps;
    point sum = {.value = ref->bias_dw[j], .chain = (float)ref->bias_dw[j]};
    double terms = fabs(ref->bias_dw[j]);
    for (int64_t t = 0; t < taps; t++) {
        const int64_t h =
            p * problem->stride_h - problem->pad_top + t / problem->s * problem->dil_h;
        const int64_t w =
            q * problem->stride_w - problem->pad_left + t % problem->s * problem->dil_w;
        if (h < 0 || h >= problem->h || w < 0 || w >= problem->w)
            continue;
        const double x = tensor_get(&ref->x, n, channel, h, w);
        sum.value += x * weights[t];
        sum.chain = fmaf((float)x, (float)weights[t], sum.chain);
        terms += fabs(x * weights[t]);
    }
    sum.bound = gamma_of(taps + 2) * terms + (double)taps * tiny;
    return sum;
}

void reference_mid(const reference *ref, int64_t n, int64_t p, int64_t q, point *mid) {
    for (int64_t j = 0; j < ref->mid_channels; j++)
        mid[j] = activate(ref->problem.act_mid, depthwise(ref, n, j, p, q));
}

static point pointwise(const reference *ref, int64_t k, double residual, const point *mid) {
    const double *weights = ref->w_pw + k * ref->mid_channels;
    const double gamma = gamma_of(ref->mid_channels + 3);
    point sum = {.value = ref->bias_pw[k], .chain = (float)ref->bias_pw[k]};
    double terms = 0.0, errors = 0.0, slack = 0.0;
    for (int64_t j = 0; j < ref->mid_channels; j++) {
        const double term = mid[j].value * weights[j];
        sum.value += term;
        sum.chain = fmaf(mid[j].chain, (float)weights[j], sum.chain);
        terms += fabs(term);
        errors += mid[j].bound * fabs(weights[j]);
        slack += mid[j].slack * weights[j] * mid[j].slack * weights[j];
    }
    sum.bound = gamma * (terms + fabs(ref->bias_pw[k]) + fabs(residual)) + errors * (1.0 + gamma) +
                (double)ref->mid_channels * tiny;
    if (ref->tf32)
        sum.bound += (0x1p-9 + 0x1p-20) * terms;
    sum.slack = sqrt(slack);
    sum.value += residual;
    sum.chain += (float)residual;
    return sum;
}

point reference_y(const reference *ref, int64_t n, int64_t k, int64_t p, int64_t q,
                  const point *mid) {
    const dsconv_problem *problem = &ref->problem;
    const double residual =
        problem->residual == DSCONV_RESIDUAL_NONE ? 0.0 : tensor_get(&ref->residual, n, k, p, q);
    if (problem->residual != DSCONV_RESIDUAL_AFTER_ACT)
        return activate(problem->act_out, pointwise(ref, k, residual, mid));
    point y = activate(problem->act_out, pointwise(ref, k, 0.0, mid));
    y.bound += unit * (fabs(y.value) + y.bound + fabs(residual));
    y.value += residual;
    y.chain += (float)residual;
    return y;
}
