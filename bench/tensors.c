#include "tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

/* Random values repeat after this many, a prime, so that they fall in step with no extent. */
enum { PERIOD = 1048573 };

static void fill_uniform(void *data, dsconv_dtype dtype, int64_t count, double low, double high,
                         uint64_t seed) {
    const size_t element = dtype_size(dtype);
    const int64_t first = count < PERIOD ? count : PERIOD;
    rng r = {seed};
    for (int64_t i = 0; i < first; i++)
        element_set(data, dtype, i, low + (high - low) * rng_unit(&r));
    char *bytes = data;
    for (int64_t i = first; i < count; i += PERIOD) {
        const int64_t length = count - i < PERIOD ? count - i : PERIOD;
        memcpy(bytes + (size_t)i * element, bytes, (size_t)length * element);
    }
}

static void set_sizes(bench_tensors *t) {
    const dsconv_problem *p = &t->job->problem;
    const dsconv_problem_info *info = &t->job->info;
    const int64_t counts[TENSORS] = {
        [X] = info->x_span,
        [RESIDUAL] = p->residual == DSCONV_RESIDUAL_NONE ? 0 : info->residual_span,
        [W_DW] = info->w_dw_span,
        [W_PW] = info->w_pw_span,
        [BIAS_DW] = p->bias & DSCONV_BIAS_DW ? info->mid_channels : 0,
        [BIAS_PW] = p->bias & DSCONV_BIAS_PW ? p->k : 0,
        [Y] = info->y_span,
        [MID] = p->output_mid ? info->mid_span : 0,
    };
    for (int i = 0; i < TENSORS; i++)
        t->size[i] = (size_t)counts[i] * dtype_size(p->dtype);
}

static void fill_inputs(bench_tensors *t, uint64_t seed) {
    const dsconv_problem *p = &t->job->problem;
    const double dw = 1.0 / sqrt((double)(p->r * p->s));
    const double pw = 1.0 / sqrt((double)t->job->info.mid_channels);
    const double low[Y] = {
        [X] = 0.0, [RESIDUAL] = -1.0, [W_DW] = -dw, [W_PW] = -pw, [BIAS_DW] = -dw, [BIAS_PW] = -pw};
    const double high[Y] = {
        [X] = 1.0, [RESIDUAL] = 1.0, [W_DW] = dw, [W_PW] = pw, [BIAS_DW] = dw, [BIAS_PW] = pw};
    for (int i = 0; i < Y; i++)
        if (t->data[i])
            fill_uniform(t->data[i], p->dtype, (int64_t)(t->size[i] / dtype_size(p->dtype)), low[i],
                         high[i], seed * TENSORS + (uint64_t)i);
}

bool tensors_make(bench_tensors *t, const bench_job *job, uint64_t seed) {
    *t = (bench_tensors){.job = job};
    set_sizes(t);
    for (int i = 0; i < TENSORS; i++) {
        /* An empty x or y still needs a pointer. */
        if (t->size[i] == 0 && i != X && i != Y)
            continue;
        t->data[i] = memory_map(t->size[i]);
        if (!t->data[i])
            return false;
    }
    fill_inputs(t, seed);
    return true;
}

void tensors_free(bench_tensors *t) {
    for (int i = 0; i < TENSORS; i++)
        memory_unmap(t->data[i], t->size[i]);
    *t = (bench_tensors){0};
}

inputs tensors_inputs(const bench_tensors *t) {
    inputs in = {.x = problem_x(&t->job->problem),
                 .residual = problem_residual(&t->job->problem),
                 .w_dw = t->data[W_DW],
                 .w_pw = t->data[W_PW],
                 .bias_dw = t->data[BIAS_DW],
                 .bias_pw = t->data[BIAS_PW]};
    in.x.data = t->data[X];
    in.residual.data = t->data[RESIDUAL];
    return in;
}

float *tensors_as_float(const bench_tensors *t, tensor_name name) {
    const dsconv_dtype dtype = t->job->problem.dtype;
    const size_t count = t->size[name] / dtype_size(dtype);
    float *values = t->data[name] ? malloc(count * sizeof *values) : NULL;
    for (size_t i = 0; values && i < count; i++)
        values[i] = (float)element_get(t->data[name], dtype, (int64_t)i);
    return values;
}
