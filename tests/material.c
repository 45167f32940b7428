#include "material.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[MATERIAL_KINDS] = {"exact",   "uniform", "specials",
                                                  "weights", "large",   "tiny"};

material_kind material_find(const char *name) {
    int kind = 0;
    while (kind < MATERIAL_KINDS && strcmp(names[kind], name) != 0)
        kind++;
    return (material_kind)kind;
}

const char *material_name(material_kind kind) {
    return names[kind];
}

typedef struct recipe {
    fill x, w_dw, w_pw, rest; /* rest: biases and residual */
} recipe;

/*
 * The largest amplitudes a, b, c of x, w_dw, w_pw (at most 4, 3, 3) for which no sum needs more
 * than 24 bits: |mid| <= R S a b + b, |y| <= CM c |mid| + 8, and two leaky_relu of slope 1/2 add
 * two bits. TF32 has 11 bits for mid, one of which leaky_relu takes.
 */
static recipe exact_recipe(const dsconv_problem *problem) {
    const double taps = (double)(problem->r * problem->s);
    const double channels = (double)problem_mid_channels(problem);
    const double mid_limit = problem->math == DSCONV_TF32 ? 0x1p10 : 0x1p22;
    double a = 4.0, b = 3.0, c = 3.0;
    while (a > 1.0 || b > 1.0 || c > 1.0) {
        const double mid = taps * a * b + b;
        if (mid <= mid_limit && channels * c * mid + 8.0 <= 0x1p22)
            break;
        a = a > 1.0 ? a - 1.0 : 1.0;
        b = b > 1.0 ? b - 1.0 : 1.0;
        c = c > 1.0 ? c - 1.0 : 1.0;
    }
    return (recipe){{FILL_INTEGERS, a}, {FILL_INTEGERS, b}, {FILL_INTEGERS, c}, {FILL_INTEGERS, b}};
}

static recipe recipe_of(const dsconv_problem *problem, material_kind kind) {
    const fill unit = {FILL_UNIFORM, 1.0}, special = {FILL_SPECIALS, 1.0};
    const double subnormal = problem->dtype == DSCONV_F16 ? 0x1p-15 : 0x1p-127;
    switch (kind) {
    case MATERIAL_EXACT:
        return exact_recipe(problem);
    case MATERIAL_SPECIALS:
        return (recipe){special, unit, unit, special};
    case MATERIAL_WEIGHTS:
        return (recipe){unit, special, special, special};
    case MATERIAL_LARGE:
        return (recipe){
            {FILL_UNIFORM, 2000.0}, {FILL_UNIFORM, 100.0}, {FILL_UNIFORM, 0x1p-12}, unit};
    case MATERIAL_TINY:
        return (recipe){{FILL_UNIFORM, subnormal}, unit, unit, {FILL_UNIFORM, subnormal}};
    case MATERIAL_UNIFORM:
    case MATERIAL_KINDS:
        break;
    }
    return (recipe){unit, unit, unit, unit};
}

static bool make_tensor(void **memory, tensor *t, fill f, rng *random) {
    const int64_t span = tensor_span(t);
    *memory = calloc((size_t)span + 1, dtype_size(t->dtype));
    if (*memory == NULL)
        return false;
    t->data = *memory;
    tensor_fill(t, f, random);
    return true;
}

static bool make_vector(void **memory, dsconv_dtype dtype, int64_t count, fill f, rng *random) {
    const int64_t dims[4] = {1, 1, 1, count};
    tensor t = tensor_view(dtype, DSCONV_NCHW, dims, NULL);
    return make_tensor(memory, &t, f, random);
}

bool material_make(material *m, const dsconv_problem *problem, material_kind kind, uint64_t seed) {
    dsconv_problem dense = *problem;
    memset(dense.x_strides, 0, sizeof dense.x_strides);
    memset(dense.residual_strides, 0, sizeof dense.residual_strides);
    *m = (material){.problem = *problem, .kind = kind, .seed = seed};
    m->in.x = problem_x(&dense);
    m->in.residual = problem_residual(&dense);

    const recipe fills = recipe_of(problem, kind);
    const int64_t channels = problem_mid_channels(problem);
    const dsconv_dtype dtype = problem->dtype;
    rng random = {seed};
    bool ok = make_tensor(&m->memory[0], &m->in.x, fills.x, &random) &&
              make_vector(&m->memory[1], dtype, channels * problem->r * problem->s, fills.w_dw,
                          &random) &&
              make_vector(&m->memory[2], dtype, problem->k * channels, fills.w_pw, &random);
    if (problem->bias & DSCONV_BIAS_DW)
        ok = ok && make_vector(&m->memory[3], dtype, channels, fills.rest, &random);
    if (problem->bias & DSCONV_BIAS_PW)
        ok = ok && make_vector(&m->memory[4], dtype, problem->k, fills.rest, &random);
    if (problem->residual != DSCONV_RESIDUAL_NONE)
        ok = ok && make_tensor(&m->memory[5], &m->in.residual, fills.rest, &random);
    m->in.w_dw = m->memory[1];
    m->in.w_pw = m->memory[2];
    m->in.bias_dw = m->memory[3];
    m->in.bias_pw = m->memory[4];
    if (!ok)
        material_free(m);
    return ok;
}

void material_free(material *m) {
    for (int i = 0; i < 6; i++)
        free(m->memory[i]);
    *m = (material){0};
}
