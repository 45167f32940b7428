#include <stdlib.h>
#include <string.h>

#include "timer.h"

const bench_timer *bench_timer_for(const char *backend, bool host) {
    if (strcmp(backend, "cuda") == 0)
        return &bench_timer_cuda;
    return host ? &bench_timer_host : &bench_timer_device;
}

typedef struct samples {
    double *clean, *all; /* seconds per call */
    int clean_count, count, repeats;
} samples;

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bench_times summarize(double *values, int count, const samples *s) {
    double sum = 0.0;
    qsort(values, (size_t)count, sizeof *values, compare);
    for (int i = 0; i < count; i++)
        sum += values[i];
    return (bench_times){.median = (values[(count - 1) / 2] + values[count / 2]) / 2,
                         .min = values[0],
                         .mean = sum / count,
                         .kept = count,
                         .taken = s->count,
                         .quiet = values == s->clean};
}

/* The first call warms up, the second tells how many fill a sample. */
static dsconv_status calibrate(const bench_timer *timer, void *state, const bench_call *call,
                               int *repeats, dsconv_message *message) {
    double seconds = 0.0;
    bool clean;
    dsconv_status status = timer->sample(state, call, 1, &seconds, &clean, message);
    if (status == DSCONV_OK)
        status = timer->sample(state, call, 1, &seconds, &clean, message);
    const double wanted = timer->min_seconds / (seconds > 1e-7 ? seconds : 1e-7);
    *repeats = wanted > 1.0 ? (int)wanted + 1 : 1;
    return status;
}

static dsconv_status take(const bench_timer *timer, void *state, const bench_call *call, samples *s,
                          dsconv_message *message) {
    double seconds = 0.0;
    bool clean = false;
    const dsconv_status status = timer->sample(state, call, s->repeats, &seconds, &clean, message);
    seconds /= s->repeats;
    s->all[s->count++] = seconds;
    if (clean)
        s->clean[s->clean_count++] = seconds;
    return status;
}

static bool all_have(const samples *s, size_t count, int reps) {
    for (size_t i = 0; i < count; i++)
        if (s[i].clean_count < reps)
            return false;
    return true;
}

dsconv_status bench_measure(const bench_timer *timer, void *state, bench_candidate *candidates,
                            size_t count, int reps, dsconv_message *message) {
    const size_t rounds = 3 * (size_t)reps;
    dsconv_status status = DSCONV_OK;
    samples *s = calloc(count, sizeof *s);
    double *values = malloc(2 * rounds * count * sizeof *values);
    if (!s || !values) {
        status = DSCONV_ERROR_OUT_OF_MEMORY;
        goto out;
    }
    for (size_t i = 0; i < count && status == DSCONV_OK; i++) {
        s[i].clean = values + 2 * rounds * i;
        s[i].all = s[i].clean + rounds;
        status = calibrate(timer, state, &candidates[i].call, &s[i].repeats, message);
    }
    /* Each round begins with another candidate. */
    for (size_t round = 0; round < rounds && status == DSCONV_OK && !all_have(s, count, reps);
         round++)
        for (size_t i = 0; i < count && status == DSCONV_OK; i++) {
            const size_t next = (i + round) % count;
            status = take(timer, state, &candidates[next].call, &s[next], message);
        }
    for (size_t i = 0; i < count && status == DSCONV_OK; i++)
        candidates[i].times = 2 * s[i].clean_count >= reps
                                  ? summarize(s[i].clean, s[i].clean_count, &s[i])
                                  : summarize(s[i].all, s[i].count, &s[i]);
out:
    free(values);
    free(s);
    return status;
}
