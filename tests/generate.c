#include "generate.h"

#include "reference.h"

static const double work_limit = 6e5; /* multiply-adds */

static int64_t pick(rng *random, const int64_t *values) {
    int64_t count = 0;
    while (values[count] >= 0)
        count++;
    return values[rng_range(random, 0, count - 1)];
}

static bool chance(rng *random, int64_t one_in) {
    return rng_range(random, 1, one_in) == 1;
}

static void pick_shape(rng *random, dsconv_problem *problem) {
    static const int64_t kernels[] = {1, 2, 3, 3, 3, 3, 4, 5, 5, 7, 7, 9, 11, -1};
    static const int64_t steps[] = {1, 1, 1, 2, 2, 3, -1};
    static const int64_t dilations[] = {1, 1, 1, 1, 2, 3, -1};
    static const int64_t channels[] = {1, 2, 3, 5, 8, 16, 17, 24, 31, 32, 33, 48, 64, 65, -1};
    static const int64_t multipliers[] = {1, 1, 1, 1, 2, 3, 6, -1};
    static const int64_t extents[] = {1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 28, 31, 33, 56, 67, -1};
    problem->n = rng_range(random, 1, 3);
    problem->c = pick(random, channels);
    problem->k = pick(random, channels);
    problem->h = pick(random, extents);
    problem->w = pick(random, extents);
    problem->r = pick(random, kernels);
    problem->s = chance(random, 3) ? pick(random, kernels) : problem->r;
    problem->stride_h = pick(random, steps);
    problem->stride_w = chance(random, 4) ? pick(random, steps) : problem->stride_h;
    problem->dil_h = pick(random, dilations);
    problem->dil_w = chance(random, 4) ? pick(random, dilations) : problem->dil_h;
    problem->multiplier = pick(random, multipliers);
}

/* "Same" padding, or four of their own; then as much as one window still needs. */
static void pick_padding(rng *random, dsconv_problem *problem) {
    const int64_t reach_h = problem->dil_h * (problem->r - 1);
    const int64_t reach_w = problem->dil_w * (problem->s - 1);
    const bool same = chance(random, 2);
    problem->pad_top = same ? reach_h / 2 : rng_range(random, 0, reach_h + 1);
    problem->pad_bottom = same ? reach_h / 2 : rng_range(random, 0, reach_h + 1);
    problem->pad_left = same ? reach_w / 2 : rng_range(random, 0, reach_w + 1);
    problem->pad_right = same ? reach_w / 2 : rng_range(random, 0, reach_w + 1);
    const int64_t missing_h = reach_h + 1 - problem->h - problem->pad_top - problem->pad_bottom;
    const int64_t missing_w = reach_w + 1 - problem->w - problem->pad_left - problem->pad_right;
    problem->pad_bottom += missing_h > 0 ? missing_h : 0;
    problem->pad_right += missing_w > 0 ? missing_w : 0;
}

static double work(const dsconv_problem *problem) {
    const tensor y = problem_y(problem);
    const double channels = (double)problem_mid_channels(problem);
    return (double)y.dims[0] * (double)y.dims[2] * (double)y.dims[3] * channels *
           (double)(problem->r * problem->s + problem->k);
}

/* Halves one extent after another until the problem is small enough. */
static void shrink(rng *random, dsconv_problem *problem, bool keep_outputs) {
    while (work(problem) > work_limit) {
        int64_t *const extents[] = {&problem->c, keep_outputs ? &problem->c : &problem->k,
                                    &problem->h, &problem->w};
        int64_t *extent = extents[rng_range(random, 0, 3)];
        *extent = (*extent + 1) / 2;
        pick_padding(random, problem);
    }
}

static dsconv_activation pick_activation(rng *random, bool exact) {
    static const float slopes[] = {0.01F, 0.2F, -0.5F, 1.5F};
    dsconv_activation a = {DSCONV_ACT_NONE, 0.0F};
    if (chance(random, 4))
        return a;
    a.kind = (dsconv_activation_kind)rng_range(
        random, DSCONV_ACT_RELU, exact ? DSCONV_ACT_LEAKY_RELU : DSCONV_ACT_GELU_TANH);
    if (a.kind == DSCONV_ACT_LEAKY_RELU)
        a.alpha = exact ? 0.5F : slopes[rng_range(random, 0, 3)];
    return a;
}

static void pick_operation(rng *random, dsconv_problem *problem, bool exact) {
    static const int64_t dtypes[] = {DSCONV_F32, DSCONV_F32, DSCONV_F16, DSCONV_BF16, -1};
    problem->dtype = (dsconv_dtype)pick(random, dtypes);
    problem->layout = (dsconv_layout)rng_range(random, 0, 1);
    problem->math = chance(random, 10) ? DSCONV_TF32 : DSCONV_STRICT;
    problem->bias = (uint32_t)rng_range(random, DSCONV_BIAS_NONE, DSCONV_BIAS_BOTH);
    problem->residual =
        (dsconv_residual)rng_range(random, DSCONV_RESIDUAL_NONE, DSCONV_RESIDUAL_AFTER_ACT);
    problem->act_mid = pick_activation(random, exact);
    problem->act_out = pick_activation(random, exact);
    problem->output_mid = chance(random, 4);
}

/* A slice of something larger: each dimension may leave a gap to the next one outside it. */
static void pick_strides(rng *random, dsconv_layout layout, const tensor *dense,
                         int64_t strides[4]) {
    static const int orders[2][4] = {[DSCONV_NCHW] = {3, 2, 1, 0}, [DSCONV_NHWC] = {1, 3, 2, 0}};
    if (!chance(random, 3))
        return;
    int64_t stride = chance(random, 6) ? 2 : 1;
    for (int i = 0; i < 4; i++) {
        const int dimension = orders[layout][i];
        strides[dimension] = stride;
        stride *= dense->dims[dimension];
        if (chance(random, 2))
            stride += strides[dimension] * rng_range(random, 1, 9);
    }
}

dsconv_problem generate_problem(rng *random, bool exact, int64_t outputs) {
    dsconv_problem problem = DSCONV_PROBLEM_INIT;
    pick_shape(random, &problem);
    if (outputs > 0)
        problem.k = outputs;
    pick_padding(random, &problem);
    shrink(random, &problem, outputs > 0);
    pick_operation(random, &problem, exact);
    const tensor x = problem_x(&problem), y = problem_y(&problem);
    pick_strides(random, problem.layout, &x, problem.x_strides);
    pick_strides(random, problem.layout, &y, problem.y_strides);
    if (problem.residual != DSCONV_RESIDUAL_NONE)
        pick_strides(random, problem.layout, &y, problem.residual_strides);
    return problem;
}
