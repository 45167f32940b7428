/*
 * The test tools on themselves: problem strings, storage types, guards and verdicts.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "buffer.h"
#include "generate.h"
#include "problem.h"
#include "verify.h"

static void assert_same_problem(const dsconv_problem *a, const dsconv_problem *b) {
    assert_memory_equal(a, b, sizeof *a);
}

static void test_problem_defaults(void **state) {
    (void)state;
    char error[PROBLEM_ERROR_SIZE], text[PROBLEM_TEXT_SIZE];
    dsconv_problem a, b;
    assert_true(problem_parse("", &a, error));
    assert_true(problem_parse("kernelbench86", &b, error));
    assert_same_problem(&a, &b);
    problem_print(&a, text);
    assert_string_equal(text,
                        "n=16,c=64,h=512,w=512,k=128,r=3,s=3,stride=1,pad=1,dil=1,mult=1,"
                        "dtype=f32,layout=nchw,math=strict,bias=0,mid=none,out=none,res=none");
    assert_true(problem_parse("kernelbench86,r=5,stride=2x1,pad=1x2,mid=leaky_relu", &a, error));
    assert_int_equal(a.s, 5);
    assert_int_equal(a.stride_h, 2);
    assert_int_equal(a.stride_w, 1);
    assert_int_equal(a.pad_bottom, 1);
    assert_int_equal(a.pad_left, 2);
    assert_true(a.act_mid.alpha == 0.01F);
}

static void test_problem_round_trip(void **state) {
    (void)state;
    char error[PROBLEM_ERROR_SIZE], text[PROBLEM_TEXT_SIZE];
    rng random = {7};
    for (int i = 0; i < 1000; i++) {
        const dsconv_problem made = generate_problem(&random, false, 0);
        dsconv_problem read;
        problem_print(&made, text);
        assert_true(problem_parse(text, &read, error));
        assert_same_problem(&made, &read);
    }
}

static void test_problem_errors(void **state) {
    (void)state;
    static const char *const wrong[][2] = {
        {"foo", "foo"},           {"stride=2y", "stride=2y"}, {"n=", "n="},
        {"bogus=3", "bogus=3"},   {"xstrides=4", "xstrides"}, {"dtype=f64", "f64"},
        {"mid=relu:3", "relu:3"}, {"n=1,", "comma"},          {"h=99999999999999999999", "h="},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char error[PROBLEM_ERROR_SIZE] = "";
        dsconv_problem problem;
        assert_false(problem_parse(wrong[i][0], &problem, error));
        assert_non_null(strstr(error, wrong[i][1]));
    }
}

/* Every 16-bit pattern survives, and what lies between two neighbours goes to the nearer one. */
static void test_storage_types(void **state) {
    (void)state;
    static const dsconv_dtype types[] = {DSCONV_F16, DSCONV_BF16};
    for (int t = 0; t < 2; t++) {
        for (unsigned pattern = 0; pattern < 65536; pattern++) {
            const uint16_t bits = (uint16_t)pattern;
            const double value = element_get(&bits, types[t], 0);
            uint16_t back;
            element_set(&back, types[t], 0, value);
            if (isnan(value)) {
                assert_true(isnan(element_get(&back, types[t], 0)));
                continue;
            }
            assert_int_equal(back, bits);
            const uint16_t above = (uint16_t)(pattern + 1);
            const double next = element_get(&above, types[t], 0);
            if (!isfinite(value) || !isfinite(next) || value < 0.0)
                continue;
            assert_true(dtype_round(types[t], value + 0.49 * (next - value)) == value);
            assert_true(dtype_round(types[t], value + 0.51 * (next - value)) == next);
            const double even = pattern % 2 == 0 ? value : next;
            assert_true(dtype_round(types[t], value + 0.5 * (next - value)) == even);
        }
    }
    assert_true(isinf(dtype_round(DSCONV_F16, 65520.0)));
    assert_true(dtype_round(DSCONV_F16, 65519.9) == 65504.0);
    assert_true(dtype_round(DSCONV_F32, 1.0 + 0x1p-24) == 1.0);
}

static void test_buffer_finds_stray_writes(void **state) {
    (void)state;
    const int64_t dims[4] = {2, 3, 4, 5}, strides[4] = {100, 30, 7, 1};
    for (int place = 0; place < PLACEMENTS; place++) {
        tensor t = tensor_view(DSCONV_F32, DSCONV_NCHW, dims, strides);
        buffer b;
        assert_true(buffer_make(&b, NULL, (size_t)tensor_span(&t) * 4, 4, (placement)place));
        t.data = buffer_host(&b);
        assert_true(isnan(tensor_get(&t, 1, 2, 3, 4)));
        assert_true(buffer_intact(&b, &t));
        tensor_set(&t, 1, 2, 3, 4, 1.0);
        assert_true(buffer_intact(&b, &t));
        element_set(t.data, DSCONV_F32, 5, 1.0); /* between two rows */
        assert_false(buffer_intact(&b, &t));
        buffer_free(&b);
    }
}

static void test_verdict(void **state) {
    (void)state;
    const point one = {.value = 1.0, .bound = 0x1p-22, .chain = 1.0F};
    const point infinite = {.value = INFINITY, .chain = INFINITY};
    const point nothing = {.value = NAN, .chain = NAN};
    verdict v = {.dtype = DSCONV_F32};
    verdict_add(&v, 0, 0, 0, 0, one, 1.0);
    verdict_add(&v, 0, 0, 0, 1, infinite, INFINITY);
    verdict_add(&v, 0, 0, 0, 2, nothing, NAN);
    assert_true(verdict_pass(&v));
    verdict_add(&v, 0, 0, 0, 3, one, 1.0 + 0x1p-21);
    assert_int_equal(v.wrong, 1);
    assert_int_equal(v.at[3], 3);
    verdict_add(&v, 0, 0, 0, 4, one, NAN);
    verdict_add(&v, 0, 0, 0, 5, infinite, 3.0);
    verdict_add(&v, 0, 0, 0, 6, nothing, 3.0);
    verdict_add(&v, 0, 0, 0, 7, one, INFINITY);
    assert_int_equal(v.wrong, 5);
    assert_false(verdict_pass(&v));

    verdict exact = {.dtype = DSCONV_F16, .exact = true};
    verdict_add(&exact, 0, 0, 0, 0, (point){.value = 2049.0, .chain = 2049.0F}, 2048.0);
    assert_true(verdict_pass(&exact));
    verdict_add(&exact, 0, 0, 0, 1, one, 1.0 + 0x1p-10);
    assert_false(verdict_pass(&exact));

    verdict drift = {.dtype = DSCONV_F32}; /* each within its bound, all together too far */
    for (int i = 0; i < 100; i++)
        verdict_add(&drift, 0, 0, 0, i, one, 1.0 + 0x1p-22);
    assert_int_equal(drift.wrong, 0);
    assert_false(verdict_pass(&drift));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_problem_defaults),
        cmocka_unit_test(test_problem_round_trip),
        cmocka_unit_test(test_problem_errors),
        cmocka_unit_test(test_storage_types),
        cmocka_unit_test(test_buffer_finds_stray_writes),
        cmocka_unit_test(test_verdict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
