#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Multiply-adds of the reference that are affordable: about two seconds on two processors. */
static const double affordable = 4e8;

static void merge(verdict *into, const verdict *from) {
    if (into->wrong == 0 && from->wrong > 0) {
        for (int i = 0; i < 4; i++)
            into->at[i] = from->at[i];
        into->got = from->got;
        into->expected = from->expected;
    }
    into->count += from->count;
    into->wrong += from->wrong;
    into->max_abs = fmax(into->max_abs, from->max_abs);
    into->max_ulp = fmax(into->max_ulp, from->max_ulp);
    into->error2 += from->error2;
    into->chain2 += from->chain2;
    into->value2 += from->value2;
    into->slack2 += from->slack2;
    into->bound2 += from->bound2;
}

/* Pixels per image to look at. */
static int64_t sample_size(const bench_job *job) {
    const dsconv_problem *p = &job->problem;
    const int64_t pixels = job->info.p * job->info.q;
    const double cost =
        (double)job->info.mid_channels * (double)(p->r * p->s + p->k) * (double)p->n;
    const double count = affordable / cost;
    if (count >= (double)pixels)
        return pixels;
    return count < 16.0 ? 16 : (int64_t)count;
}

/* Sample `index` of an image: corners first, then every fourth on a border, the rest anywhere. */
static int64_t sample_pixel(int64_t index, int64_t p, int64_t q, rng *r) {
    const int64_t corners[] = {0, q - 1, (p - 1) * q, p * q - 1};
    const int64_t row = rng_range(r, 0, p - 1), column = rng_range(r, 0, q - 1);
    if (index < 4)
        return corners[index];
    const int64_t borders[] = {column, (p - 1) * q + column, row * q, row * q + q - 1};
    if (index % 4 == 0)
        return borders[index / 4 % 4];
    return row * q + column;
}

typedef struct checker {
    const reference *ref;
    tensor y, mid;
    int64_t channels;
    bool with_mid;
} checker;

static void check_pixel(const checker *c, int64_t n, int64_t p, int64_t q, point *mid,
                        bench_check *check) {
    reference_mid(c->ref, n, p, q, mid);
    for (int64_t j = 0; c->with_mid && j < c->channels; j++)
        verdict_add(&check->mid, n, j, p, q, mid[j], tensor_get(&c->mid, n, j, p, q));
    for (int64_t k = 0; k < c->y.dims[1]; k++)
        verdict_add(&check->y, n, k, p, q, reference_y(c->ref, n, k, p, q, mid),
                    tensor_get(&c->y, n, k, p, q));
}

/* Pixels are dealt out in rounds of one per image, so that threads share the work evenly. */
static bool check_all(const checker *c, int64_t samples, bench_check *check) {
    const int64_t height = c->y.dims[2], width = c->y.dims[3], images = c->y.dims[0];
    const bool whole = samples == height * width;
    bool enough_memory = true;
#pragma omp parallel
    {
        bench_check own = {.y = {.dtype = check->y.dtype, .tf32 = check->y.tf32},
                           .mid = {.dtype = check->y.dtype}};
        point *mid = malloc((size_t)c->channels * sizeof *mid);
#pragma omp for schedule(dynamic, 64)
        for (int64_t i = 0; i < samples * images; i++) {
            rng r = {(uint64_t)i};
            const int64_t index = i / images;
            const int64_t pixel = whole ? index : sample_pixel(index, height, width, &r);
            if (mid)
                check_pixel(c, i % images, pixel / width, pixel % width, mid, &own);
        }
#pragma omp critical
        {
            merge(&check->y, &own.y);
            merge(&check->mid, &own.mid);
            enough_memory &= mid != NULL;
        }
        free(mid);
    }
    return enough_memory;
}

bool check_outputs(const bench_tensors *tensors, void *y, bool with_mid, bool tf32,
                   bench_check *check) {
    const bench_job *job = tensors->job;
    const inputs in = tensors_inputs(tensors);
    reference *ref = reference_create(&job->problem, &in, tf32);
    if (!ref)
        return false;
    checker c = {.ref = ref,
                 .y = problem_y(&job->problem),
                 .mid = problem_mid(&job->problem),
                 .channels = job->info.mid_channels,
                 .with_mid = with_mid && job->problem.output_mid};
    c.y.data = y;
    c.mid.data = tensors->data[MID];
    const dsconv_dtype dtype = job->problem.dtype;
    *check = (bench_check){.y = {.dtype = dtype, .tf32 = tf32}, .mid = {.dtype = dtype}};
    const int64_t samples = job->problem.n > 0 ? sample_size(job) : 0;
    check->pixels = samples * job->problem.n;
    check->pixels_of_all = job->problem.n * job->info.p * job->info.q;
    const bool done = check_all(&c, samples, check);
    reference_destroy(ref);
    return done;
}

bool check_passes(const bench_check *check) {
    return verdict_pass(&check->y) && verdict_pass(&check->mid);
}

void check_describe(const bench_check *check, char *text, size_t size) {
    if (check->pixels == check->pixels_of_all)
        (void)snprintf(text, size, "all %lld pixels", (long long)check->pixels);
    else
        (void)snprintf(text, size, "%lld of %lld pixels (every image; corners, borders, random)",
                       (long long)check->pixels, (long long)check->pixels_of_all);
}
