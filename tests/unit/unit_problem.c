/* Every field of a problem out of range, each by itself, and what follows from valid ones. */
#include "unit.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit_alloc.h"

#define FIELD(name, least)                                                                         \
    { #name, offsetof(dsconv_problem, name), least }
static const struct {
    const char *name;
    size_t offset;
    int64_t least;
} numbers[] = {
    FIELD(n, 0),         FIELD(c, 1),       FIELD(h, 1),          FIELD(w, 1),
    FIELD(k, 1),         FIELD(r, 1),       FIELD(s, 1),          FIELD(stride_h, 1),
    FIELD(stride_w, 1),  FIELD(pad_top, 0), FIELD(pad_bottom, 0), FIELD(pad_left, 0),
    FIELD(pad_right, 0), FIELD(dil_h, 1),   FIELD(dil_w, 1),      FIELD(multiplier, 1),
};
static const struct {
    const char *name;
    size_t offset;
    int32_t last;
} choices[] = {
    FIELD(dtype, DSCONV_I8),
    FIELD(layout, DSCONV_NHWC),
    FIELD(math, DSCONV_TF32),
    FIELD(bias, DSCONV_BIAS_BOTH),
    FIELD(residual, DSCONV_RESIDUAL_AFTER_ACT),
    FIELD(act_mid.kind, DSCONV_ACT_GELU_TANH),
    FIELD(act_out.kind, DSCONV_ACT_GELU_TANH),
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static dsconv_context *context;

/* All ways into the library refuse it, with nothing allocated. */
static void refuses(const dsconv_problem *problem, dsconv_status status, const char *text) {
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    dsconv_plan *plan = (dsconv_plan *)&info;
    int before = unit_allocations();
    expect_failure(dsconv_problem_query(problem, &info), status, text);
    expect_failure(dsconv_supports(context, problem, NULL), status, text);
    expect_failure(dsconv_plan_create(context, problem, NULL, &plan), status, text);
    assert_null(plan);
    assert_int_equal(unit_allocations(), before);
    assert_int_equal(info.p, 0);
}

static void refuses_number(size_t offset, const char *name, int64_t value) {
    dsconv_problem problem = unit_problem();
    char text[64];
    memcpy((char *)&problem + offset, &value, sizeof value);
    (void)snprintf(text, sizeof text, "%s = %" PRId64 ":", name, value);
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, text);
}

static void numbers_out_of_range(void **state) {
    (void)state;
    static const int64_t large[] = {INT64_C(1) << 40, INT64_C(1) << 62, INT64_MAX};
    for (size_t i = 0; i < COUNT(numbers); i++) {
        refuses_number(numbers[i].offset, numbers[i].name, numbers[i].least - 1);
        refuses_number(numbers[i].offset, numbers[i].name, -1);
        refuses_number(numbers[i].offset, numbers[i].name, INT64_MIN);
        for (size_t j = 0; j < COUNT(large); j++)
            refuses_number(numbers[i].offset, numbers[i].name, large[j]);
    }
}

static void choices_out_of_range(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(choices); i++) {
        const int32_t values[] = {choices[i].last + 1, INT32_MAX, -1, INT32_MIN};
        for (size_t j = 0; j < COUNT(values); j++) {
            dsconv_problem problem = unit_problem();
            char text[64];
            memcpy((char *)&problem + choices[i].offset, &values[j], sizeof values[j]);
            (void)snprintf(text, sizeof text, "%s = %" PRId32 ":", choices[i].name, values[j]);
            refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, text);
        }
    }
}

static void strides_out_of_range(void **state) {
    (void)state;
    static const struct {
        const char *name;
        size_t offset;
    } tensors[] = {{"x", offsetof(dsconv_problem, x_strides)},
                   {"y", offsetof(dsconv_problem, y_strides)},
                   {"residual", offsetof(dsconv_problem, residual_strides)}};
    static const int64_t values[] = {-1, 0, INT64_C(1) << 62, INT64_C(1) << 48, INT64_MIN};
    for (size_t t = 0; t < COUNT(tensors); t++)
        for (size_t i = 0; i < 4; i++)
            for (size_t v = 0; v < COUNT(values); v++) {
                dsconv_problem problem = unit_problem();
                int64_t strides[4] = {1000, 100, 10, 1};
                char text[64];
                strides[i] = values[v];
                problem.residual = DSCONV_RESIDUAL_AFTER_ACT;
                memcpy((char *)&problem + tensors[t].offset, strides, sizeof strides);
                (void)snprintf(text, sizeof text, "%s_strides[%zu] = %" PRId64 ":", tensors[t].name,
                               i, values[v]);
                refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, text);
            }
}

static void tensors_too_large(void **state) {
    (void)state;
    const int64_t big = (INT64_C(1) << 40) - 1;
    dsconv_problem problem = unit_problem();
    problem.c = big;
    problem.h = 90;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "c = 1099511627775");
    problem.multiplier = big;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "multiplier = 1099511627775");
    problem = unit_problem();
    problem.pad_left = problem.pad_top = big;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "y would have 2^48 elements");
    problem = unit_problem();
    problem.r = problem.pad_top = big;
    problem.s = problem.pad_left = big;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "w_dw would have 2^48 elements");
    problem = unit_problem();
    problem.k = problem.c = 1 << 25;
    problem.h = problem.w = problem.r = problem.s = 1;
    problem.pad_top = problem.pad_bottom = problem.pad_left = problem.pad_right = 0;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "w_pw would have 2^48 elements");
}

static void windows_that_do_not_fit(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    problem.r = 12;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "r = 12 ");
    problem.r = 11;
    expect_ok(dsconv_supports(context, &problem, NULL));
    problem = unit_problem();
    problem.s = 2;
    problem.dil_w = 12;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "dil_w = 12:");
    problem.dil_w = 11;
    expect_ok(dsconv_supports(context, &problem, NULL));
    problem.r = problem.dil_h = (INT64_C(1) << 40) - 1;
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "r = 1099511627775 ");
}

static void overlapping_output(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    const int64_t rows_too_close[4] = {1000, 100, 9, 1};
    const int64_t interleaved[4] = {1, 20, 2000, 200};
    memcpy(problem.y_strides, rows_too_close, sizeof rows_too_close);
    refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "y_strides[2] = 9: y would overlap itself");
    memcpy(problem.y_strides, interleaved, sizeof interleaved);
    expect_ok(dsconv_supports(context, &problem, NULL));
    memcpy(problem.x_strides, rows_too_close, sizeof rows_too_close);
    expect_ok(dsconv_supports(context, &problem, NULL));
}

static void slopes(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        dsconv_problem problem = unit_problem();
        problem.act_mid = (dsconv_activation){DSCONV_ACT_RELU, bad[i]};
        expect_ok(dsconv_supports(context, &problem, NULL));
        problem.act_mid.kind = DSCONV_ACT_LEAKY_RELU;
        refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "act_mid.alpha = ");
        problem = unit_problem();
        problem.act_out = (dsconv_activation){DSCONV_ACT_LEAKY_RELU, bad[i]};
        refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, "act_out.alpha = ");
    }
}

static void int8_is_unsupported(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    problem.dtype = DSCONV_I8;
    refuses(&problem, DSCONV_ERROR_UNSUPPORTED, "dtype = 3");
}

static void structure_sizes(void **state) {
    (void)state;
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    dsconv_problem problem = unit_problem();
    static const size_t sizes[] = {0, 7, 5000, SIZE_MAX};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char text[64];
        problem.struct_size = sizes[i];
        (void)snprintf(text, sizeof text, "problem.struct_size = %zu:", sizes[i]);
        refuses(&problem, DSCONV_ERROR_INVALID_ARGUMENT, text);
    }
    refuses(NULL, DSCONV_ERROR_INVALID_ARGUMENT, "problem = NULL");
    problem = unit_problem();
    expect_failure(dsconv_problem_query(&problem, NULL), DSCONV_ERROR_INVALID_ARGUMENT,
                   "info = NULL");
    info.struct_size = 0;
    expect_failure(dsconv_problem_query(&problem, &info), DSCONV_ERROR_INVALID_ARGUMENT,
                   "info.struct_size = 0:");

    /* An older caller knows no strides: what lies there is not read. */
    memset(problem.x_strides, 0xff, sizeof problem.x_strides);
    problem.struct_size = offsetof(dsconv_problem, x_strides);
    info.struct_size = offsetof(dsconv_problem_info, q);
    info.q = -7;
    expect_ok(dsconv_problem_query(&problem, &info));
    assert_int_equal(info.p, 9);
    assert_int_equal(info.q, -7);

    /* A newer caller may leave what this version lacks at zero, and gets zero for it. */
    struct {
        dsconv_problem known;
        int64_t unknown;
    } newer = {unit_problem(), 0};
    struct {
        dsconv_problem_info known;
        int64_t unknown;
    } newer_info = {DSCONV_PROBLEM_INFO_INIT, -7};
    newer.known.struct_size = sizeof newer;
    newer_info.known.struct_size = sizeof newer_info;
    expect_ok(dsconv_problem_query(&newer.known, &newer_info.known));
    assert_int_equal(newer_info.known.q, 10);
    assert_int_equal(newer_info.unknown, 0);
    newer.unknown = 1;
    refuses(&newer.known, DSCONV_ERROR_INVALID_ARGUMENT, "problem.struct_size = ");
}

/* Counts windows one by one. */
static int64_t windows(int64_t padded, int64_t taps, int64_t step, int64_t spread) {
    int64_t count = 0;
    while (count * step + (taps - 1) * spread < padded)
        count++;
    return count;
}

static int64_t draw(int64_t least, int64_t most) {
    return least + rand() % (most - least + 1);
}

static void extents_of_random_problems(void **state) {
    (void)state;
    srand(1);
    int valid = 0;
    for (int i = 0; i < 20000; i++) {
        dsconv_problem a = DSCONV_PROBLEM_INIT;
        dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
        a.n = draw(0, 3), a.c = draw(1, 9), a.h = draw(1, 20), a.w = draw(1, 20);
        a.k = draw(1, 9), a.r = draw(1, 7), a.s = draw(1, 7), a.multiplier = draw(1, 3);
        a.stride_h = draw(1, 9), a.stride_w = draw(1, 9), a.dil_h = draw(1, 4);
        a.dil_w = draw(1, 4), a.pad_top = draw(0, 9), a.pad_bottom = draw(0, 9);
        a.pad_left = draw(0, 9), a.pad_right = draw(0, 9);
        a.layout = rand() % 2 ? DSCONV_NCHW : DSCONV_NHWC;
        a.bias = (uint32_t)draw(0, 3);
        int64_t p = windows(a.h + a.pad_top + a.pad_bottom, a.r, a.stride_h, a.dil_h);
        int64_t q = windows(a.w + a.pad_left + a.pad_right, a.s, a.stride_w, a.dil_w);
        int64_t mid = a.c * a.multiplier;
        if (p == 0 || q == 0) {
            expect_failure(dsconv_problem_query(&a, &info), DSCONV_ERROR_INVALID_ARGUMENT,
                           "does not fit");
            continue;
        }
        valid++;
        expect_ok(dsconv_problem_query(&a, &info));
        assert_int_equal(info.p, p);
        assert_int_equal(info.q, q);
        assert_int_equal(info.mid_channels, mid);
        assert_int_equal(info.x_span, a.n * a.c * a.h * a.w);
        assert_int_equal(info.y_span, a.n * a.k * p * q);
        assert_int_equal(info.mid_span, a.n * mid * p * q);
        assert_int_equal(info.w_dw_span, mid * a.r * a.s);
        assert_int_equal(info.w_pw_span, mid * a.k);
        assert_int_equal(info.residual_span, 0);
        assert_true(info.flops == 2.0 * (double)(a.n * p * q * mid * (a.r * a.s + a.k)));
        int64_t biases = (a.bias & 1 ? mid : 0) + (a.bias & 2 ? a.k : 0);
        assert_true(
            info.compulsory_bytes ==
            4.0 * (double)(info.x_span + info.y_span + info.w_dw_span + info.w_pw_span + biases));
    }
    assert_true(valid > 10000);
}

static void large_problems_are_valid(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    problem.n = INT64_C(1) << 36;
    expect_ok(dsconv_problem_query(&problem, &info));
    assert_true(info.x_span == (INT64_C(1) << 36) * 360);
    problem = unit_problem();
    problem.h = INT64_C(1) << 39;
    problem.n = 1;
    problem.w = 1;
    expect_ok(dsconv_problem_query(&problem, &info));
    assert_true(info.p == INT64_C(1) << 39);
}

static void headline_figures(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    problem.n = 16, problem.c = 64, problem.k = 128, problem.h = problem.w = 512;
    expect_ok(dsconv_problem_query(&problem, &info));
    assert_true(info.flops == 2.0 * 16 * 512 * 512 * 64 * (9 + 128));
    assert_true(info.compulsory_bytes == 4.0 * (16.0 * 512 * 512 * (64 + 128) + 64 * 9 + 64 * 128));
}

static void spans_of_strided_tensors(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    const int64_t strides[4] = {2000, 200, 16, 1};
    memcpy(problem.x_strides, strides, sizeof strides);
    memcpy(problem.residual_strides, strides, sizeof strides);
    problem.residual = DSCONV_RESIDUAL_BEFORE_ACT;
    expect_ok(dsconv_problem_query(&problem, &info));
    assert_int_equal(info.x_span, 2000 + 3 * 200 + 8 * 16 + 9 + 1);
    assert_int_equal(info.residual_span, 2000 + 5 * 200 + 8 * 16 + 9 + 1);
    assert_int_equal(info.y_span, 2 * 6 * 9 * 10);
}

static int open_context(void **state) {
    int failed = unit_setup(state);
    context = unit_context("cpu");
    return failed;
}

static int close_context(void **state) {
    dsconv_context_destroy(context);
    return unit_teardown(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_out_of_range),
        cmocka_unit_test(choices_out_of_range),
        cmocka_unit_test(strides_out_of_range),
        cmocka_unit_test(tensors_too_large),
        cmocka_unit_test(windows_that_do_not_fit),
        cmocka_unit_test(overlapping_output),
        cmocka_unit_test(slopes),
        cmocka_unit_test(int8_is_unsupported),
        cmocka_unit_test(structure_sizes),
        cmocka_unit_test(extents_of_random_problems),
        cmocka_unit_test(large_problems_are_valid),
        cmocka_unit_test(headline_figures),
        cmocka_unit_test(spans_of_strided_tensors),
    };
    return cmocka_run_group_tests(tests, open_context, close_context);
}
