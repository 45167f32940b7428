#include "result.h"

bool result_passes(const bench_result *r) {
    return !r->verified || (check_passes(&r->check) && (!r->has_ref || check_passes(&r->ref)));
}

static double ratio(double a, double b, double otherwise) {
    return b > 0.0 ? a / b : otherwise;
}

double result_flops_rate(const bench_result *r) {
    return ratio(r->job->info.flops, r->times.median, 0.0);
}

double result_bytes_rate(const bench_result *r) {
    return ratio(r->job->info.compulsory_bytes, r->times.median, 0.0);
}

double result_fma_share(const bench_result *r) {
    return r->times.median > 0.0 ? ratio(result_flops_rate(r), r->fma_peak, -1.0) : -1.0;
}

double result_mix_share(const bench_result *r) {
    return r->times.median > 0.0 ? ratio(result_bytes_rate(r), r->mix_rate, -1.0) : -1.0;
}

double result_speedup(const bench_result *r) {
    return r->best_peer < 0 ? -1.0
                            : ratio(r->peer[r->best_peer].times.median, r->times.median, -1.0);
}
