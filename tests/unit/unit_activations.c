/* The activations of the CPU kernels against double, over all of float, for each instruction set.
 */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu_kernels.h"
#include "kernels/epilogue.h"

enum { BATCH = 64, STEP = 4001 }; /* STEP: between the bit patterns that are tried */

typedef struct isa {
    const char *name;
    epilogue_row_fn *row;
} isa;

/* The instruction sets of this processor, the best one last. */
static size_t list_isas(isa isas[3]) {
    size_t count = 0;
    isas[count++] = (isa){"portable", dsconv_epilogue_row_portable};
#ifdef CPU_X86
    const cpu_kernels *best = dsconv_cpu_best_kernels();
    if (best != &dsconv_cpu_kernels_portable)
        isas[count++] = (isa){"avx2", dsconv_epilogue_row_avx2};
    if (best == &dsconv_cpu_kernels_avx512)
        isas[count++] = (isa){"avx512", dsconv_epilogue_row_avx512};
#endif
    return count;
}

static double clamp6(double v) {
    return v < 0.0 ? 0.0 : v > 6.0 ? 6.0 : v;
}

static double expected(dsconv_activation act, double v) {
    switch (act.kind) {
    case DSCONV_ACT_NONE:
        return v;
    case DSCONV_ACT_RELU:
        return v < 0.0 ? 0.0 : v;
    case DSCONV_ACT_RELU6:
        return clamp6(v);
    case DSCONV_ACT_LEAKY_RELU:
        return v > 0.0 ? v : (double)act.alpha * v;
    case DSCONV_ACT_SILU:
        return v / (1.0 + exp(-v));
    case DSCONV_ACT_HARDSWISH:
        return v * clamp6(v + 3.0) / 6.0;
    case DSCONV_ACT_HARDSIGMOID:
        return clamp6(v + 3.0) / 6.0;
    case DSCONV_ACT_SIGMOID:
        return 1.0 / (1.0 + exp(-v));
    case DSCONV_ACT_GELU:
        return v / 2.0 * erfc(-v / sqrt(2.0));
    case DSCONV_ACT_GELU_TANH:
        return v / (1.0 + exp(-2.0 * sqrt(2.0 / M_PI) * (v + 0.044715 * v * v * v)));
    }
    return NAN;
}

/* Error bound in units of the last place, and in absolute terms where results are tiny. */
static double bound(dsconv_activation_kind kind, double v, double result) {
    static const double ulps[] = {0.0, 0.0, 0.0, 0.5, 4.0, 4.0, 2.0, 4.0, 9.0, 4.0};
    const double unit = ldexp(1.0, -23) * fabs(result);
    if (kind == DSCONV_ACT_GELU_TANH && v < -1.0)
        return 200.0 * unit + 1e-35;
    if (kind == DSCONV_ACT_GELU && v < -1.0)
        return 80.0 * unit + 1e-35;
    return ulps[kind] * unit + (ulps[kind] > 0.0 ? 1e-36 : 0.0);
}

static void check(const isa *set, dsconv_activation act, float v, float got) {
    const double want = expected(act, (double)v);
    if (isnan(want)) {
        if (!isnan(got))
            fail_msg("%s, activation %d of %a: got %a, expected a NaN", set->name, (int)act.kind,
                     (double)v, (double)got);
    } else if (fabs(want) > 0x1.fffffep+127) {
        if (!isinf(got) && fabs((double)got) < 0x1.fffff0p+127)
            fail_msg("%s, activation %d of %a: got %a, expected %a", set->name, (int)act.kind,
                     (double)v, (double)got, want);
    } else if (!(fabs((double)got - want) <= bound(act.kind, (double)v, want))) {
        fail_msg("%s, activation %d of %a: got %a, expected %a", set->name, (int)act.kind,
                 (double)v, (double)got, want);
    }
}

static void test_against_double(void **state) {
    (void)state;
    isa isas[3];
    const size_t count = list_isas(isas);
    for (size_t i = 0; i < count; i++)
        for (int kind = DSCONV_ACT_NONE; kind <= DSCONV_ACT_GELU_TANH; kind++) {
            const epilogue e = {
                DSCONV_F32, DSCONV_RESIDUAL_NONE, {(dsconv_activation_kind)kind, 0.125F}};
            for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += (uint64_t)BATCH * STEP) {
                float v[BATCH], y[BATCH];
                for (int k = 0; k < BATCH; k++) {
                    const uint32_t pattern = (uint32_t)(bits + (uint64_t)k * STEP);
                    memcpy(&v[k], &pattern, sizeof pattern);
                }
                isas[i].row(&e, v, NULL, y, BATCH);
                for (int k = 0; k < BATCH; k++)
                    check(&isas[i], e.act, v[k], y[k]);
            }
        }
}

/* Special values, in rows of every length up to three vectors. */
static void test_special_values(void **state) {
    (void)state;
    static const float special[] = {NAN,    INFINITY, -INFINITY, 0.0F,    -0.0F, 6.0F,
                                    -3.0F,  3.0F,     1e30F,     -1e30F,  1.0F,  -100.0F,
                                    104.0F, -104.0F,  1e-40F,    -1e-40F, 88.0F};
    enum { KINDS = sizeof special / sizeof *special, MOST = 48 };
    isa isas[3];
    const size_t count = list_isas(isas);
    for (size_t i = 0; i < count; i++)
        for (int kind = DSCONV_ACT_NONE; kind <= DSCONV_ACT_GELU_TANH; kind++)
            for (int n = 1; n <= MOST; n++) {
                const epilogue e = {
                    DSCONV_F32, DSCONV_RESIDUAL_NONE, {(dsconv_activation_kind)kind, 0.125F}};
                float v[MOST], y[MOST + 1];
                for (int k = 0; k < n; k++)
                    v[k] = special[(n + k) % KINDS];
                y[n] = 12.5F;
                isas[i].row(&e, v, NULL, y, n);
                for (int k = 0; k < n; k++)
                    check(&isas[i], e.act, v[k], y[k]);
                assert_true(y[n] == 12.5F);
            }
}

/* The residual goes in before or after the activation, and may be y itself. */
static void test_residual(void **state) {
    (void)state;
    enum { N = 21 };
    isa isas[3];
    const size_t count = list_isas(isas);
    for (size_t i = 0; i < count; i++) {
        epilogue e = {DSCONV_F32, DSCONV_RESIDUAL_BEFORE_ACT, {DSCONV_ACT_RELU, 0.0F}};
        float sum[N], y[N];
        for (int k = 0; k < N; k++) {
            sum[k] = (float)(k - 10);
            y[k] = 2.0F;
        }
        isas[i].row(&e, sum, y, y, N);
        for (int k = 0; k < N; k++)
            assert_true(y[k] == (k > 8 ? (float)(k - 8) : 0.0F));
        e.residual = DSCONV_RESIDUAL_AFTER_ACT;
        isas[i].row(&e, sum, y, y, N);
        for (int k = 0; k < N; k++)
            assert_true(y[k] ==
                        (k > 8 ? (float)(k - 8) : 0.0F) + (k > 10 ? (float)(k - 10) : 0.0F));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_double),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_residual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
