/* Folding a batch norm, against the norm itself in double. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 5, TERMS = 7 };

static float random_value(float least, float most) {
    return least + (most - least) * (float)rand() / (float)RAND_MAX;
}

static void fill(float *values, int count, float least, float most) {
    for (int i = 0; i < count; i++)
        values[i] = random_value(least, most);
}

/* A stage is a dot product here: norm(w . v + b) must equal the folded one. */
static void fold_and_compare(bool with_gamma, bool with_beta) {
    float weights[CHANNELS * TERMS], bias[CHANNELS], folded[CHANNELS * TERMS],
        folded_bias[CHANNELS];
    float gamma[CHANNELS], beta[CHANNELS], mean[CHANNELS], variance[CHANNELS], input[TERMS];
    dsconv_batch_norm norm = DSCONV_BATCH_NORM_INIT;
    fill(weights, CHANNELS * TERMS, -1, 1);
    fill(bias, CHANNELS, -1, 1);
    fill(gamma, CHANNELS, -2, 2);
    fill(beta, CHANNELS, -1, 1);
    fill(mean, CHANNELS, -1, 1);
    fill(variance, CHANNELS, 0, 4);
    fill(input, TERMS, -1, 1);
    memcpy(folded, weights, sizeof weights);
    memcpy(folded_bias, bias, sizeof bias);
    norm.channels = CHANNELS;
    norm.terms = TERMS;
    norm.gamma = with_gamma ? gamma : NULL;
    norm.beta = with_beta ? beta : NULL;
    norm.mean = mean;
    norm.variance = variance;
    norm.epsilon = 1e-3F;
    expect_ok(dsconv_fold_batch_norm(&norm, folded, folded_bias));
    for (int i = 0; i < CHANNELS; i++) {
        double sum = (double)bias[i], got = (double)folded_bias[i], size = fabs(got);
        for (int j = 0; j < TERMS; j++) {
            sum += (double)weights[i * TERMS + j] * (double)input[j];
            got += (double)folded[i * TERMS + j] * (double)input[j];
            size += fabs((double)folded[i * TERMS + j] * (double)input[j]);
        }
        double scale = (with_gamma ? (double)gamma[i] : 1.0) /
                       sqrt((double)variance[i] + (double)norm.epsilon);
        double expected = (sum - (double)mean[i]) * scale + (with_beta ? (double)beta[i] : 0.0);
        /* Each folded value was rounded to float once: 2^-24 of its size. */
        assert_true(fabs(got - expected) <= size * 0x1p-24 + 1e-12);
    }
}

static void equals_the_norm(void **state) {
    (void)state;
    srand(3);
    for (int i = 0; i < 100; i++)
        fold_and_compare(i & 1, i & 2);
}

static void bad_norms_write_nothing(void **state) {
    (void)state;
    const float ones[2] = {1.0F, 1.0F}, minus[2] = {1.0F, -1.0F}, nan[2] = {1.0F, NAN};
    const dsconv_batch_norm good = {sizeof good, 2, 2, ones, ones, ones, ones, 0.5F};
    struct {
        dsconv_batch_norm norm;
        const char *text;
    } bad[8];
    for (size_t i = 0; i < 8; i++)
        bad[i].norm = good;
    bad[0].norm.channels = 0, bad[0].text = "channels = 0:";
    bad[1].norm.terms = -1, bad[1].text = "terms = -1:";
    bad[2].norm.mean = NULL, bad[2].text = "mean = NULL";
    bad[3].norm.variance = NULL, bad[3].text = "variance = NULL";
    bad[4].norm.variance = minus, bad[4].text = "variance[1] = -1 with epsilon = 0.5";
    bad[5].norm.variance = nan, bad[5].text = "variance[1] = nan";
    bad[6].norm.struct_size = 0, bad[6].text = "norm.struct_size = 0";
    bad[7].norm.channels = bad[7].norm.terms = INT64_C(1) << 40, bad[7].text = "product";
    for (size_t i = 0; i < 8; i++) {
        float weights[4] = {1, 2, 3, 4}, bias[2] = {5, 6};
        expect_failure(dsconv_fold_batch_norm(&bad[i].norm, weights, bias),
                       DSCONV_ERROR_INVALID_ARGUMENT, bad[i].text);
        for (int j = 0; j < 4; j++)
            assert_true(weights[j] == (float)(j + 1));
        assert_true(bias[0] == 5.0F && bias[1] == 6.0F);
    }
    float weights[4] = {1, 2, 3, 4}, bias[2] = {5, 6};
    expect_failure(dsconv_fold_batch_norm(NULL, weights, bias), DSCONV_ERROR_INVALID_ARGUMENT,
                   "norm = NULL");
    expect_failure(dsconv_fold_batch_norm(&good, NULL, bias), DSCONV_ERROR_INVALID_ARGUMENT,
                   "weights = NULL");
    expect_failure(dsconv_fold_batch_norm(&good, weights, NULL), DSCONV_ERROR_INVALID_ARGUMENT,
                   "bias = NULL");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_norm),
        cmocka_unit_test(bad_norms_write_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
