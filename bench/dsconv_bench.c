/* dsconv-bench: verifies and times libdsconv. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "list.h"
#include "options.h"
#include "plot.h"
#include "report.h"
#include "work.h"

/* The line on stderr that shows how far the work is, on a terminal. */
static struct {
    bool on;
    size_t at, of;
    const char *what;
} progress;

static void show_progress(const char *stage) {
    if (progress.on)
        fprintf(stderr, "\r\033[K[%zu/%zu] %.60s: %s ", progress.at, progress.of, progress.what,
                stage);
}

static void clear_progress(void) {
    if (progress.on)
        fprintf(stderr, "\r\033[K");
}

/* What a whole run ends with: a wrong result outweighs a backend that could not be used. */
static int worse(int a, int b) {
    static const int ranks[] = {EXIT_SUCCESS, EXIT_UNAVAILABLE, EXIT_OUT_OF_BOUNDS, EXIT_USAGE};
    int rank_a = 0, rank_b = 0;
    for (int i = 0; i < 4; i++) {
        rank_a = ranks[i] == a ? i : rank_a;
        rank_b = ranks[i] == b ? i : rank_b;
    }
    return rank_a > rank_b ? a : b;
}

static int exit_status(dsconv_status status) {
    switch (status) {
    case DSCONV_OK:
        return EXIT_SUCCESS;
    case DSCONV_ERROR_UNAVAILABLE:
    case DSCONV_ERROR_UNSUPPORTED:
        return EXIT_UNAVAILABLE;
    case DSCONV_ERROR_INVALID_ARGUMENT:
    case DSCONV_ERROR_UNKNOWN_BACKEND:
        return EXIT_USAGE;
    default:
        return EXIT_OUT_OF_BOUNDS;
    }
}

enum { BACKENDS_MAX = 32 };

/* The backends to work with; NULL stands for the library's own choice. */
typedef struct backend_list {
    dsconv_backend_info info[BACKENDS_MAX];
    const char *name[BACKENDS_MAX];
    size_t count;
} backend_list;

static void choose_backends(const bench_options *options, backend_list *list) {
    list->count = 0;
    if (!options->backend || strcmp(options->backend, "all") != 0) {
        list->name[list->count++] = options->backend;
        return;
    }
    for (size_t i = 0; i < dsconv_backend_count() && i < BACKENDS_MAX; i++) {
        dsconv_backend_info *info = &list->info[list->count];
        *info = (dsconv_backend_info)DSCONV_BACKEND_INFO_INIT;
        if (dsconv_backend_query(i, info) != DSCONV_OK) {
            /* The environment is wrong; a context says what. */
            list->name[list->count++] = NULL;
            return;
        }
        if (info->usable)
            list->name[list->count++] = info->name;
        else
            fprintf(stderr, "left out: backend %s: %s\n", info->name, info->reason);
    }
}

/* Fails at once, before tensors are made, where the backend cannot be used at all. */
static int try_backend(const bench_options *options, const char *backend) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context = NULL;
    params.backend = backend;
    params.device = options->device;
    params.threads = options->threads;
    const dsconv_status status = dsconv_context_create(&params, &context);
    if (status != DSCONV_OK)
        fprintf(stderr, "dsconv-bench: %s\n", dsconv_last_message());
    dsconv_context_destroy(context);
    return exit_status(status);
}

/* Works on one problem with every backend; adds to the results. */
static int work_on(const bench_options *options, const bench_job *job, const backend_list *backends,
                   bool several, bench_result *results, size_t *count) {
    int exit_code = EXIT_SUCCESS;
    bench_tensors tensors;
    show_progress("filling the tensors");
    if (!tensors_make(&tensors, job, options->seed)) {
        clear_progress();
        fprintf(stderr, "dsconv-bench: out of host memory for %s\n", job->text);
        tensors_free(&tensors);
        return EXIT_OUT_OF_BOUNDS;
    }
    for (size_t i = 0; i < backends->count; i++) {
        dsconv_message message = {""};
        const dsconv_status status = work_run(options, backends->name[i], &tensors, show_progress,
                                              &results[*count], &message);
        clear_progress();
        if (status == DSCONV_OK) {
            report_result(options, &results[*count], several);
            if (!result_passes(&results[*count]))
                exit_code = worse(exit_code, EXIT_OUT_OF_BOUNDS);
            ++*count;
        } else {
            fprintf(stderr, "dsconv-bench: %s: %s\n", job->text, message.text);
            exit_code = worse(exit_code, exit_status(status));
        }
    }
    tensors_free(&tensors);
    return exit_code;
}

static int work_on_all(const bench_options *options, const bench_jobs *jobs,
                       const backend_list *backends) {
    int exit_code = EXIT_SUCCESS;
    size_t count = 0;
    bench_result *results = calloc(jobs->count * backends->count + 1, sizeof *results);
    if (!results)
        return EXIT_OUT_OF_BOUNDS;
    progress.on = isatty(STDERR_FILENO) != 0;
    progress.of = jobs->count;
    for (size_t i = 0; i < jobs->count; i++) {
        progress.at = i + 1;
        progress.what = jobs->items[i].layer[0] ? jobs->items[i].layer : jobs->items[i].text;
        exit_code = worse(exit_code, work_on(options, &jobs->items[i], backends, jobs->count > 1,
                                             results, &count));
    }
    report_sets(options, results, count);
    if (options->plot && !plot_roofline(options->plot, results, count))
        exit_code = worse(exit_code, EXIT_OUT_OF_BOUNDS);
    free(results);
    return exit_code;
}

static int work(const bench_options *options, const bench_jobs *jobs) {
    backend_list backends;
    int status = EXIT_SUCCESS;
    choose_backends(options, &backends);
    for (size_t i = 0; i < backends.count && status == EXIT_SUCCESS; i++)
        status = try_backend(options, backends.name[i]);
    return status == EXIT_SUCCESS ? work_on_all(options, jobs, &backends) : status;
}

/* Tab-separated, for programs. */
static void print_jobs(const bench_jobs *jobs) {
    for (size_t i = 0; i < jobs->count; i++)
        printf("%s\t%s\t%s\n", jobs->items[i].set, jobs->items[i].layer, jobs->items[i].text);
}

/* Before any work, as the plot comes last. */
static bool can_plot(const bench_options *options) {
    if (!options->time) {
        fprintf(stderr, "dsconv-bench: --plot needs --mode time or both\n");
        return false;
    }
    if (!plot_available()) {
        fprintf(stderr, "dsconv-bench: --plot needs gnuplot, which is not installed\n");
        return false;
    }
    FILE *file = fopen(options->plot, "a");
    if (!file || fclose(file) != 0) {
        fprintf(stderr, "dsconv-bench: --plot %s: %s\n", options->plot, strerror(errno));
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    bench_options options;
    bench_jobs jobs = {0};
    int status = options_parse(argc, argv, &options);
    if (status >= 0)
        return status;
    if (options.plot && !can_plot(&options))
        return EXIT_USAGE;
    status = options.list ? EXIT_SUCCESS : jobs_collect(&options, &jobs);
    if (status == EXIT_SUCCESS) {
        if (options.list)
            status = list_backends() ? EXIT_USAGE : EXIT_SUCCESS;
        else if (options.print)
            print_jobs(&jobs);
        else
            status = work(&options, &jobs);
    }
    jobs_free(&jobs);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "dsconv-bench: standard output: %s\n", strerror(errno));
        status = worse(status, EXIT_OUT_OF_BOUNDS);
    }
    return status;
}
