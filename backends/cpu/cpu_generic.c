/* Algorithm `generic`: direct loops over every valid problem. */
#include "cpu_internal.h"

#include <math.h>
#include <string.h>

typedef struct weights {
    float *dw, *pw, *bias_dw, *bias_pw; /* biases are zero where the problem has none */
} weights;

typedef struct arguments {
    const cpu_plan *plan;
    const dsconv_run_params *params;
} arguments;

static float load(const void *base, int64_t index, dsconv_dtype type) {
    float value;
    const char *at = base;
    if (type == DSCONV_F32)
        return ((const float *)base)[index];
    dsconv_cpu_to_float(&value, at + 2 * index, 1, type);
    return value;
}

static void store(void *base, int64_t index, float value, dsconv_dtype type) {
    char *at = base;
    dsconv_cpu_from_float(at + (type == DSCONV_F32 ? 4 : 2) * index, &value, 1, type);
}

static float clamp6(float v) {
    return v < 0.0F ? 0.0F : v > 6.0F ? 6.0F : v;
}

static float activate(dsconv_activation act, float v) {
    switch (act.kind) {
    case DSCONV_ACT_RELU:
        return v < 0.0F ? 0.0F : v;
    case DSCONV_ACT_RELU6:
        return clamp6(v);
    case DSCONV_ACT_LEAKY_RELU:
        return v > 0.0F ? v : act.alpha * v;
    case DSCONV_ACT_SILU:
        return v / (1.0F + expf(-v));
    case DSCONV_ACT_HARDSWISH:
        return v * clamp6(v + 3.0F) / 6.0F;
    case DSCONV_ACT_HARDSIGMOID:
        return clamp6(v + 3.0F) / 6.0F;
    case DSCONV_ACT_SIGMOID:
        return 1.0F / (1.0F + expf(-v));
    case DSCONV_ACT_GELU:
        return 0.5F * v * erfcf(-v * (float)M_SQRT1_2);
    case DSCONV_ACT_GELU_TANH: {
        /* (1 + tanh(u)) / 2 = sigmoid(2u), which keeps its digits where tanh nears -1 */
        float u = 0.7978845608F * (v + 0.044715F * v * v * v);
        return v / (1.0F + expf(-2.0F * u));
    }
    default:
        return v;
    }
}

/* mid of one pixel, channel by channel. */
static void depthwise(const arguments *a, int64_t n, int64_t p, int64_t q, float *mid) {
    const dsconv_shape *shape = &a->plan->shape;
    const dsconv_problem *pb = &shape->problem;
    const weights *w = a->plan->data;
    for (int64_t j = 0; j < shape->mid_channels; j++) {
        int64_t plane = n * pb->x_strides[0] + j / pb->multiplier * pb->x_strides[1];
        float sum = w->bias_dw[j];
        for (int64_t r = 0; r < pb->r; r++) {
            int64_t y = p * pb->stride_h + r * pb->dil_h - pb->pad_top;
            if (y < 0 || y >= pb->h)
                continue;
            for (int64_t s = 0; s < pb->s; s++) {
                int64_t x = q * pb->stride_w + s * pb->dil_w - pb->pad_left;
                if (x < 0 || x >= pb->w)
                    continue;
                float in = load(a->params->x, plane + y * pb->x_strides[2] + x * pb->x_strides[3],
                                pb->dtype);
                sum += in * w->dw[(j * pb->r + r) * pb->s + s];
            }
        }
        mid[j] = activate(pb->act_mid, sum);
        if (pb->output_mid) {
            const int64_t *t = shape->mid_strides;
            store(a->params->mid, n * t[0] + j * t[1] + p * t[2] + q * t[3], mid[j], pb->dtype);
        }
    }
}

static void pointwise(const arguments *a, int64_t n, int64_t p, int64_t q, const float *mid) {
    const dsconv_shape *shape = &a->plan->shape;
    const dsconv_problem *pb = &shape->problem;
    const weights *w = a->plan->data;
    const int64_t *sy = pb->y_strides, *sr = pb->residual_strides;
    for (int64_t k = 0; k < pb->k; k++) {
        const float *row = w->pw + k * shape->mid_channels;
        float sum = w->bias_pw[k], residual = 0.0F;
        for (int64_t j = 0; j < shape->mid_channels; j++)
            sum += mid[j] * row[j];
        if (pb->residual != DSCONV_RESIDUAL_NONE)
            residual =
                load(a->params->residual, n * sr[0] + k * sr[1] + p * sr[2] + q * sr[3], pb->dtype);
        if (pb->residual == DSCONV_RESIDUAL_BEFORE_ACT)
            sum += residual;
        sum = activate(pb->act_out, sum);
        if (pb->residual == DSCONV_RESIDUAL_AFTER_ACT)
            sum += residual;
        store(a->params->y, n * sy[0] + k * sy[1] + p * sy[2] + q * sy[3], sum, pb->dtype);
    }
}

static void work(const void *opaque, int thread, int threads) {
    const arguments *a = opaque;
    const dsconv_shape *shape = &a->plan->shape;
    float *mid = (float *)a->params->workspace + thread * shape->mid_channels;
    int64_t begin, end;
    cpu_share(shape->problem.n * shape->p, thread, threads, &begin, &end);
    for (int64_t row = begin; row < end; row++)
        for (int64_t q = 0; q < shape->q; q++) {
            depthwise(a, row / shape->p, row % shape->p, q, mid);
            pointwise(a, row / shape->p, row % shape->p, q, mid);
        }
}

static const char *refuse(const cpu_context *context, const dsconv_shape *shape) {
    (void)context, (void)shape;
    return NULL;
}

static dsconv_status create(cpu_plan *plan, dsconv_message *message) {
    const dsconv_problem *pb = &plan->shape.problem;
    int64_t mid = plan->shape.mid_channels;
    weights *w = plan->data = dsconv_cpu_plan_alloc(plan, 1, sizeof *w);
    if (!w)
        return dsconv_cpu_out_of_memory(message);
    w->dw = dsconv_cpu_plan_alloc(plan, mid, (size_t)(pb->r * pb->s) * sizeof(float));
    w->pw = dsconv_cpu_plan_alloc(plan, mid, (size_t)pb->k * sizeof(float));
    w->bias_dw = dsconv_cpu_plan_alloc(plan, mid, sizeof(float));
    w->bias_pw = dsconv_cpu_plan_alloc(plan, pb->k, sizeof(float));
    if (plan->out_of_memory)
        return dsconv_cpu_out_of_memory(message);
    plan->kernel = "generic";
    plan->workspace_size = (size_t)plan->threads * (size_t)mid * sizeof(float);
    return DSCONV_OK;
}

static dsconv_status set_weights(cpu_plan *plan, const cpu_weights *from, dsconv_message *message) {
    (void)message;
    const dsconv_problem *pb = &plan->shape.problem;
    int64_t mid = plan->shape.mid_channels;
    weights *w = plan->data;
    memcpy(w->dw, from->w_dw, (size_t)(mid * pb->r * pb->s) * sizeof(float));
    memcpy(w->pw, from->w_pw, (size_t)(mid * pb->k) * sizeof(float));
    if (from->bias_dw)
        memcpy(w->bias_dw, from->bias_dw, (size_t)mid * sizeof(float));
    if (from->bias_pw)
        memcpy(w->bias_pw, from->bias_pw, (size_t)pb->k * sizeof(float));
    return DSCONV_OK;
}

static dsconv_status run(const cpu_plan *plan, const dsconv_run_params *params,
                         dsconv_message *message) {
    (void)message;
    arguments a = {plan, params};
    dsconv_cpu_parallel(plan, work, &a);
    return DSCONV_OK;
}

const cpu_algo dsconv_cpu_algo_generic = {
    .name = "generic",
    .refuse = refuse,
    .create = create,
    .set_weights = set_weights,
    .run = run,
};
