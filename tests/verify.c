#include "verify.h"

#include <math.h>
#include <stdio.h>

/* Half the distance between 1 and the next value. */
static double roundoff(dsconv_dtype dtype) {
    static const double roundoffs[] = {
        [DSCONV_F32] = 0x1p-24, [DSCONV_F16] = 0x1p-11, [DSCONV_BF16] = 0x1p-8};
    return roundoffs[dtype];
}

static bool admits(const verdict *v, point expected, double got) {
    if (isnan(expected.value))
        return isnan(got);
    if (isinf(expected.value))
        return got == expected.value;
    const double bound = v->exact ? 0.0 : expected.bound;
    return got >= dtype_round(v->dtype, expected.value - bound) &&
           got <= dtype_round(v->dtype, expected.value + bound);
}

void verdict_add(verdict *v, int64_t n, int64_t channel, int64_t p, int64_t q, point expected,
                 double got) {
    v->count++;
    if (!admits(v, expected, got) && v->wrong++ == 0) {
        const int64_t at[4] = {n, channel, p, q};
        for (int i = 0; i < 4; i++)
            v->at[i] = at[i];
        v->got = got;
        v->expected = expected;
    }
    const double chain = dtype_round(v->dtype, (double)expected.chain);
    if (!isfinite(got) || !isfinite(expected.value) || !isfinite(chain))
        return;
    const double error = fabs(got - expected.value);
    v->max_abs = fmax(v->max_abs, error);
    if (expected.value != 0.0)
        v->max_ulp = fmax(v->max_ulp, error / (2.0 * roundoff(v->dtype)) /
                                          exp2(floor(log2(fabs(expected.value)))));
    v->error2 += error * error;
    v->chain2 += (chain - expected.value) * (chain - expected.value);
    v->value2 += expected.value * expected.value;
    v->slack2 += expected.slack * expected.slack;
    v->bound2 += expected.bound * expected.bound;
}

double verdict_rel_l2(const verdict *v) {
    return v->value2 > 0.0 ? sqrt(v->error2 / v->value2) : 0.0;
}

double verdict_rel_l2_limit(const verdict *v) {
    if (v->value2 <= 0.0)
        return 0.0;
    const double own = v->tf32 ? sqrt(v->bound2) : 2.0 * sqrt(v->chain2) + sqrt(v->slack2);
    return own / sqrt(v->value2) + roundoff(v->dtype);
}

bool verdict_pass(const verdict *v) {
    return v->wrong == 0 && verdict_rel_l2(v) <= verdict_rel_l2_limit(v);
}

void verdict_print(const verdict *v, const char *what) {
    if (v->wrong > 0)
        printf("  %s[n=%lld, channel=%lld, p=%lld, q=%lld]: got %.9g, expected %.9g +- %.3g "
               "(%lld of %lld outputs wrong)\n",
               what, (long long)v->at[0], (long long)v->at[1], (long long)v->at[2],
               (long long)v->at[3], v->got, dtype_round(v->dtype, v->expected.value),
               v->exact ? 0.0 : v->expected.bound, (long long)v->wrong, (long long)v->count);
    if (verdict_rel_l2(v) > verdict_rel_l2_limit(v))
        printf("  %s: relative L2 error %.3g above the limit %.3g\n", what, verdict_rel_l2(v),
               verdict_rel_l2_limit(v));
}
