#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "message.h"
#include "structs.h"

static dsconv_status check(const dsconv_batch_norm *norm, const float *weights, const float *bias) {
    const struct {
        const char *name;
        int64_t value;
    } extents[] = {{"channels", norm->channels}, {"terms", norm->terms}};
    const struct {
        const char *name;
        const float *value;
    } pointers[] = {
        {"mean", norm->mean}, {"variance", norm->variance}, {"weights", weights}, {"bias", bias}};
    for (int i = 0; i < 2; i++)
        if (extents[i].value < 1)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "%s = %" PRId64 ": must be at least 1", extents[i].name,
                               extents[i].value);
    int64_t size;
    if (__builtin_mul_overflow(norm->channels, norm->terms, &size) ||
        size > INT64_MAX / (int64_t)sizeof(float))
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "channels = %" PRId64 ", terms = %" PRId64
                           ": their product is too large",
                           norm->channels, norm->terms);
    for (int i = 0; i < 4; i++)
        if (!pointers[i].value)
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s = NULL", pointers[i].name);
    for (int64_t i = 0; i < norm->channels; i++) {
        double sum = (double)norm->variance[i] + (double)norm->epsilon;
        if (!(sum > 0.0))
            return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                               "variance[%" PRId64 "] = %g with epsilon = %g: their sum must be "
                               "positive",
                               i, (double)norm->variance[i], (double)norm->epsilon);
    }
    return DSCONV_OK;
}

dsconv_status dsconv_fold_batch_norm(const dsconv_batch_norm *norm, float *weights, float *bias) {
    dsconv_batch_norm own;
    dsconv_status status = dsconv_struct_read(&own, sizeof own, norm, "norm");
    if (!status)
        status = check(&own, weights, bias);
    if (status)
        return status;
    for (int64_t i = 0; i < own.channels; i++) {
        double gamma = own.gamma ? (double)own.gamma[i] : 1.0;
        double beta = own.beta ? (double)own.beta[i] : 0.0;
        double scale = gamma / sqrt((double)own.variance[i] + (double)own.epsilon);
        float *row = weights + i * own.terms;
        for (int64_t j = 0; j < own.terms; j++)
            row[j] = (float)((double)row[j] * scale);
        bias[i] = (float)(((double)bias[i] - (double)own.mean[i]) * scale + beta);
    }
    return DSCONV_OK;
}
