#include "ceilings.h"

#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

extern const ceiling_kernels ceiling_kernels_portable;
#ifdef CPU_X86
extern const ceiling_kernels ceiling_kernels_avx2, ceiling_kernels_avx512;
#endif

static const ceiling_kernels *const tables[] = {
    &ceiling_kernels_portable,
#ifdef CPU_X86
    &ceiling_kernels_avx2,
    &ceiling_kernels_avx512,
#endif
};

enum { TABLES = sizeof tables / sizeof tables[0] };

enum { UNIT = 256, BLOCK = 16 * UNIT, FMA_STEPS = 1000000 };

static int thread_index(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static int thread_count(void) {
#ifdef _OPENMP
    return omp_get_num_threads();
#else
    return 1;
#endif
}

void host_ceilings_open(host_ceilings *c, int32_t threads) {
    dsconv_device_info info = DSCONV_DEVICE_INFO_INIT;
    *c = (host_ceilings){.kernels = tables[0], .threads = threads};
    if (dsconv_device_query("cpu", 0, &info) != DSCONV_OK)
        return;
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i]->isa, info.arch) == 0)
            c->kernels = tables[i];
}

static dsconv_status run_fma(void *self, dsconv_message *message) {
    const host_ceilings *c = self;
    (void)message;
#pragma omp parallel num_threads(c->threads)
    c->kernels->multiply_add(FMA_STEPS);
    return DSCONV_OK;
}

/* Reads and writes all tensors at once, each at the pace that its size asks for. */
static void run_mix(const host_ceilings *c, void (*write)(void *to, size_t size)) {
    const bench_traffic *t = &c->traffic;
    size_t largest = BLOCK;
    for (int i = 0; i < t->count; i++)
        largest = t->tensor[i].size > largest ? t->tensor[i].size : largest;
    const size_t blocks = largest / BLOCK;
#pragma omp parallel num_threads(c->threads)
    {
        const size_t thread = (size_t)thread_index(), threads = (size_t)thread_count();
        for (size_t b = blocks * thread / threads; b < blocks * (thread + 1) / threads; b++)
            for (int i = 0; i < t->count; i++) {
                const size_t units = t->tensor[i].size / UNIT;
                const size_t from = units * b / blocks, to = units * (b + 1) / blocks;
                char *data = (char *)t->tensor[i].data + from * UNIT;
                if (t->tensor[i].write)
                    write(data, (to - from) * UNIT);
                else
                    c->kernels->read(data, (to - from) * UNIT);
            }
    }
}

static dsconv_status run_mix_cached(void *self, dsconv_message *message) {
    const host_ceilings *c = self;
    (void)message;
    run_mix(c, c->kernels->write);
    return DSCONV_OK;
}

static dsconv_status run_mix_past_cache(void *self, dsconv_message *message) {
    const host_ceilings *c = self;
    (void)message;
    run_mix(c, c->kernels->write_past_cache);
    return DSCONV_OK;
}

size_t host_ceilings_candidates(host_ceilings *c, const bench_traffic *traffic,
                                bench_candidate *candidates, size_t room) {
    c->traffic = *traffic;
    double bytes = 0.0;
    for (int i = 0; i < traffic->count; i++)
        bytes += (double)traffic->tensor[i].size;
    const double flops = c->kernels->flops_per_step * FMA_STEPS * c->threads;
    const bench_candidate made[] = {
        {.name = "multiply-adds", .role = ROLE_FMA_PEAK, .call = {run_fma, c}, .work = flops},
        {.name = "read and write", .role = ROLE_MIX, .call = {run_mix_cached, c}, .work = bytes},
        {.name = "read and write past the cache",
         .role = ROLE_MIX,
         .call = {run_mix_past_cache, c},
         .work = bytes},
    };
    const size_t count = sizeof made / sizeof *made;
    if (room < count)
        return 0;
    memcpy(candidates, made, sizeof made);
    return count;
}
