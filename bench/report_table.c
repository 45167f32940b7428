/* Results for a reader. */
#include <stdio.h>
#include <string.h>

#include "report.h"

static void print_check(const char *what, const bench_check *check) {
    char pixels[128];
    check_describe(check, pixels, sizeof pixels);
    printf("  %-9s %s: max |error| %.3g, max %.3g ulp, relative L2 %.3g (bound %.3g): %s\n", what,
           pixels, check->y.max_abs, check->y.max_ulp, verdict_rel_l2(&check->y),
           verdict_rel_l2_limit(&check->y), check_passes(check) ? "pass" : "FAIL");
    if (!verdict_pass(&check->y))
        verdict_print(&check->y, "y");
    if (!verdict_pass(&check->mid))
        verdict_print(&check->mid, "mid");
}

static void print_times(const bench_result *r) {
    const double fma = result_fma_share(r), mix = result_mix_share(r);
    printf("  time      median %.4g ms, min %.4g, mean %.4g (%d of %d samples%s)\n",
           1e3 * r->times.median, 1e3 * r->times.min, 1e3 * r->times.mean, r->times.kept,
           r->times.taken, r->times.quiet ? "" : "; other jobs disturbed them");
    printf("  rate      %.4g GFLOP/s", 1e-9 * result_flops_rate(r));
    if (fma >= 0.0)
        printf(" (%.2f of the FMA peak of %.4g)", fma, 1e-9 * r->fma_peak);
    printf(", %.4g GB/s of compulsory traffic", 1e-9 * result_bytes_rate(r));
    if (mix >= 0.0)
        printf(" (%.2f of the %.4g of this mix)", mix, 1e-9 * r->mix_rate);
    printf("\n");
}

static void print_peers(const bench_result *r) {
    for (int i = 0; i < r->peers; i++) {
        const peer_result *peer = &r->peer[i];
        printf("  %-9s %-30s %9.4g ms  %5.2f x", i ? "" : "baseline", peer->name,
               1e3 * peer->times.median, peer->times.median / r->times.median);
        if (peer->rel_l2 >= 0.0)
            printf("  relative L2 %.3g", peer->rel_l2);
        if (!peer->comparable)
            printf("  (tensors already in its layout)");
        printf("%s\n", i == r->best_peer ? "  <- best" : "");
    }
}

static void print_paragraph(const bench_result *r) {
    if (r->job->set[0] || r->job->layer[0])
        printf("%s%s%s: ", r->job->set, r->job->set[0] ? " " : "", r->job->layer);
    printf("%s\n  backend   %s on %s", r->job->text, r->backend, r->device);
    if (r->threads > 0)
        printf(", %d threads", r->threads);
    printf("; %s, %s, %s; workspace %.4g MiB\n", r->algo, r->kernel,
           r->uses_tf32 ? "tf32" : "strict", (double)r->workspace_size / 0x1p20);
    if (r->verified)
        print_check("verified", &r->check);
    if (r->has_ref)
        print_check("ref", &r->ref);
    if (r->times.median > 0.0)
        print_times(r);
    print_peers(r);
    printf("  memory    peak %.4g MiB\n", (double)r->peak_memory / 0x1p20);
}

static void print_head(void) {
    static bool printed;
    if (!printed)
        printf("%-32s %-5s %-8s %10s %8s %5s %5s %10s %8s %8s  %s\n", "layer", "back", "algo", "ms",
               "GFLOP/s", "fma", "mix", "base ms", "speedup", "rel L2", "");
    printed = true;
}

static void print_share(double share) {
    if (share >= 0.0)
        printf(" %5.2f", share);
    else
        printf(" %5s", "-");
}

static void print_row(const bench_result *r) {
    char name[100];
    (void)snprintf(name, sizeof name, "%.*s%s%s", (int)strcspn(r->job->set, "0123456789") + 2,
                   r->job->set, r->job->set[0] ? " " : "", r->job->layer);
    print_head();
    printf("%-32.32s %-5s %-8s", r->job->layer[0] ? name : r->job->text, r->backend, r->algo);
    printf(" %10.4f %8.1f", 1e3 * r->times.median, 1e-9 * result_flops_rate(r));
    print_share(result_fma_share(r));
    print_share(result_mix_share(r));
    if (r->best_peer >= 0)
        printf(" %10.4f %8.3f", 1e3 * r->peer[r->best_peer].times.median, result_speedup(r));
    else
        printf(" %10s %8s", "-", "-");
    if (r->verified)
        printf(" %8.1e  %s", verdict_rel_l2(&r->check.y), result_passes(r) ? "pass" : "FAIL");
    else
        printf(" %8s  not verified", "-");
    printf("%s\n", r->times.median > 0.0 && !r->times.quiet ? ", disturbed" : "");
    if (r->verified && !result_passes(r))
        printf("  repro: dsconv-bench --backend %s --algo %s --seed %llu --mode verify '%s'\n",
               r->backend, r->algo, (unsigned long long)r->seed, r->job->text);
}

void report_table(const bench_result *r, bool several) {
    if (several)
        print_row(r);
    else
        print_paragraph(r);
}
