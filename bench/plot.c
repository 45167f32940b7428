#include "plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool plot_available(void) {
    return system("command -v gnuplot >/dev/null 2>&1") == 0;
}

static double intensity(const bench_result *r) {
    return r->job->info.flops / r->job->info.compulsory_bytes;
}

/* In a quoted string of gnuplot a quote is doubled, and nothing else is special. */
static void put_quoted(FILE *to, const char *text) {
    fputc('\'', to);
    for (; *text; text++)
        fputs(*text == '\'' ? "''" : (char[]){*text, '\0'}, to);
    fputc('\'', to);
}

static void put_points(FILE *to, const bench_result *results, size_t count) {
    for (const bench_result *r = results; r < results + count; r++)
        if (r->times.median > 0.0)
            fprintf(to, "%.9g %.9g\n", intensity(r), 1e-9 * result_flops_rate(r));
    fprintf(to, "e\n");
}

static void put_baselines(FILE *to, const bench_result *results, size_t count) {
    for (const bench_result *r = results; r < results + count; r++)
        if (r->best_peer >= 0)
            fprintf(to, "%.9g %.9g\n", intensity(r),
                    1e-9 * r->job->info.flops / r->peer[r->best_peer].times.median);
    fprintf(to, "e\n");
}

bool plot_roofline(const char *path, const bench_result *results, size_t count) {
    double peak = 0.0, rate = 0.0;
    bool baselines = false;
    for (const bench_result *r = results; r < results + count; r++) {
        peak = r->fma_peak > peak ? r->fma_peak : peak;
        rate = r->mix_rate > rate ? r->mix_rate : rate;
        baselines |= r->best_peer >= 0;
    }
    FILE *to = popen("gnuplot", "w");
    if (!to) {
        fprintf(stderr, "dsconv-bench: gnuplot could not be started\n");
        return false;
    }
    fprintf(to, "set terminal svg size 900,600\nset output ");
    put_quoted(to, path);
    fprintf(to, "\nset logscale xy\nset grid\nset key bottom right\n"
                "set xlabel 'flops per byte of compulsory traffic'\nset ylabel 'GFLOP/s'\n"
                "set xrange [1:1000]\n");
    fprintf(to, "peak = %.9g\nrate = %.9g\n", 1e-9 * peak, 1e-9 * rate);
    fprintf(to, "plot ");
    if (rate > 0.0 && peak > 0.0)
        fprintf(to, "(rate * x < peak ? rate * x : peak) with lines lw 2 title 'roofline', ");
    fprintf(to, "'-' with points pt 7 title 'dsconv'%s\n",
            baselines ? ", '-' with points pt 6 title 'baseline'" : "");
    put_points(to, results, count);
    if (baselines)
        put_baselines(to, results, count);
    if (pclose(to) == 0)
        return true;
    fprintf(stderr, "dsconv-bench: gnuplot failed to write %s\n", path);
    return false;
}
