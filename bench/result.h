/* What is known of one problem on one backend, and how it is told. */
#ifndef DSCONV_BENCH_RESULT_H
#define DSCONV_BENCH_RESULT_H

#include "check.h"
#include "peers.h"

typedef struct peer_result {
    const char *name;
    char kernel[160];
    bool comparable;
    bench_times times;
    double rel_l2; /* of the peer's y; negative where it was not checked */
} peer_result;

typedef struct bench_result {
    const bench_job *job;
    char backend[32], algo[32], kernel[64];
    char device[176];
    bool uses_tf32;
    int32_t threads; /* 0 on a GPU */
    uint64_t seed;
    size_t workspace_size, peak_memory;

    bool verified;
    bench_check check;
    bool has_ref; /* backend ref was run on the whole problem, too */
    bench_check ref;

    bench_times times; /* median 0: not timed */
    double fma_peak;   /* flops per second, 0 where unknown */
    double mix_rate;   /* bytes per second in this problem's mix, 0 where unknown */
    peer_result peer[PEERS_MAX];
    int peers;
    int best_peer; /* -1: none */
} bench_result;

bool result_passes(const bench_result *result);
double result_flops_rate(const bench_result *result); /* per second; 0 when not timed */
double result_bytes_rate(const bench_result *result); /* compulsory bytes per second */
double result_fma_share(const bench_result *result);  /* of the peak, negative where unknown */
double result_mix_share(const bench_result *result);  /* of the mix, negative where unknown */
double result_speedup(const bench_result *result);    /* over the best peer, negative: none */

#endif
