/* What a host can do at most, measured: multiply-adds, and a mix of reads and writes. */
#ifndef DSCONV_BENCH_CEILINGS_H
#define DSCONV_BENCH_CEILINGS_H

#include "timer.h"

/* One table for each instruction set; the source is compiled once for each. */
typedef struct ceiling_kernels {
    const char *isa;
    double flops_per_step;
    void (*multiply_add)(int64_t steps);
    void (*read)(const void *from, size_t size);
    void (*write)(void *to, size_t size);
    void (*write_past_cache)(void *to, size_t size);
} ceiling_kernels;

typedef struct host_ceilings {
    const ceiling_kernels *kernels;
    int32_t threads;
    bench_traffic traffic;
} host_ceilings;

/* Picks the instruction set that backend `cpu` uses. */
void host_ceilings_open(host_ceilings *ceilings, int32_t threads);

/* As bench_timer.ceilings; `ceilings` must outlive the candidates. */
size_t host_ceilings_candidates(host_ceilings *ceilings, const bench_traffic *traffic,
                                bench_candidate *candidates, size_t room);

#endif
