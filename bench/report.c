#include "report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

typedef enum field_kind { TEXT, NUMBER, TRUTH } field_kind;

/* One column; a number that is not finite is unknown. */
typedef struct field {
    const char *name;
    field_kind kind;
    const char *text;
    double number;
} field;

enum { FIELDS_MAX = 48 };

typedef struct fields {
    field item[FIELDS_MAX];
    int count;
} fields;

static void text(fields *f, const char *name, const char *value) {
    f->item[f->count++] = (field){.name = name, .kind = TEXT, .text = value};
}

static void number(fields *f, const char *name, double value, bool known) {
    f->item[f->count++] =
        (field){.name = name, .kind = NUMBER, .number = known ? value : (double)NAN};
}

static void truth(fields *f, const char *name, bool value) {
    f->item[f->count++] = (field){.name = name, .kind = TRUTH, .number = value};
}

static void add_times(fields *f, const bench_result *r) {
    const bool timed = r->times.median > 0.0;
    const peer_result *best = r->best_peer < 0 ? NULL : &r->peer[r->best_peer];
    const double speedup = result_speedup(r), mix = result_mix_share(r), fma = result_fma_share(r);
    number(f, "median_ms", 1e3 * r->times.median, timed);
    number(f, "min_ms", 1e3 * r->times.min, timed);
    number(f, "mean_ms", 1e3 * r->times.mean, timed);
    number(f, "samples", r->times.kept, timed);
    number(f, "samples_taken", r->times.taken, timed);
    truth(f, "undisturbed", timed && r->times.quiet);
    number(f, "gbytes_per_s", 1e-9 * result_bytes_rate(r), timed);
    number(f, "gflops", 1e-9 * result_flops_rate(r), timed);
    number(f, "mix_share", mix, mix >= 0.0);
    number(f, "mix_gbytes_per_s", 1e-9 * r->mix_rate, r->mix_rate > 0.0);
    number(f, "fma_share", fma, fma >= 0.0);
    number(f, "fma_peak_gflops", 1e-9 * r->fma_peak, r->fma_peak > 0.0);
    text(f, "baseline", best ? best->name : NULL);
    number(f, "baseline_ms", best ? 1e3 * best->times.median : 0.0, best != NULL);
    number(f, "baseline_rel_l2", best ? best->rel_l2 : 0.0, best && best->rel_l2 >= 0.0);
    number(f, "speedup", speedup, speedup >= 0.0);
}

static void add_errors(fields *f, const bench_result *r, const char *verified) {
    const verdict *v = &r->check.y;
    text(f, "verified", r->verified ? verified : NULL);
    number(f, "rel_l2", verdict_rel_l2(v), r->verified);
    number(f, "rel_l2_bound", verdict_rel_l2_limit(v), r->verified);
    number(f, "max_abs", v->max_abs, r->verified);
    number(f, "max_ulp", v->max_ulp, r->verified);
    f->item[f->count++] =
        (field){.name = "pass", .kind = r->verified ? TRUTH : TEXT, .number = result_passes(r)};
}

static void collect(const bench_result *r, const char *verified, fields *f) {
    f->count = 0;
    text(f, "problem", r->job->text);
    text(f, "set", r->job->set[0] ? r->job->set : NULL);
    text(f, "layer", r->job->layer[0] ? r->job->layer : NULL);
    text(f, "backend", r->backend);
    text(f, "device", r->device);
    text(f, "algo", r->algo);
    text(f, "kernel", r->kernel);
    text(f, "math", r->uses_tf32 ? "tf32" : "strict");
    number(f, "threads", r->threads, r->threads > 0);
    number(f, "seed", (double)r->seed, true);
    number(f, "workspace_bytes", (double)r->workspace_size, true);
    number(f, "peak_memory_bytes", (double)r->peak_memory, r->peak_memory > 0);
    add_times(f, r);
    add_errors(f, r, verified);
}

static cJSON *peers_to_json(const bench_result *r) {
    cJSON *list = cJSON_CreateArray();
    for (int i = 0; i < r->peers; i++) {
        const peer_result *peer = &r->peer[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddStringToObject(item, "name", peer->name);
        cJSON_AddStringToObject(item, "kernel", peer->kernel);
        cJSON_AddBoolToObject(item, "comparable", peer->comparable);
        cJSON_AddNumberToObject(item, "median_ms", 1e3 * peer->times.median);
        if (peer->rel_l2 >= 0.0)
            cJSON_AddNumberToObject(item, "rel_l2", peer->rel_l2);
        cJSON_AddItemToArray(list, item);
    }
    return list;
}

static void print_json(const bench_result *r, const fields *f) {
    cJSON *object = cJSON_CreateObject();
    for (int i = 0; i < f->count; i++) {
        const field *item = &f->item[i];
        if (item->kind == TRUTH)
            cJSON_AddBoolToObject(object, item->name, item->number != 0.0);
        else if (item->kind == TEXT && item->text)
            cJSON_AddStringToObject(object, item->name, item->text);
        else if (item->kind == NUMBER && isfinite(item->number))
            cJSON_AddNumberToObject(object, item->name, item->number);
        else
            cJSON_AddNullToObject(object, item->name);
    }
    cJSON_AddItemToObject(object, "baselines", peers_to_json(r));
    char *line = cJSON_PrintUnformatted(object);
    printf("%s\n", line ? line : "{}");
    cJSON_free(line);
    cJSON_Delete(object);
}

static void print_csv_header(const fields *f) {
    for (int i = 0; i < f->count; i++)
        printf("%s%s", i ? "," : "", f->item[i].name);
    printf("\n");
}

static void print_csv(const fields *f) {
    for (int i = 0; i < f->count; i++) {
        const field *item = &f->item[i];
        printf("%s", i ? "," : "");
        if (item->kind == TRUTH)
            printf("%s", item->number != 0.0 ? "true" : "false");
        else if (item->kind == NUMBER && isfinite(item->number))
            printf("%.9g", item->number);
        else if (item->kind == TEXT && item->text)
            printf("\"%s\"", item->text);
    }
    printf("\n");
}

void report_result(const bench_options *options, const bench_result *r, bool several) {
    static bool header_printed;
    char verified[128];
    fields f;
    check_describe(&r->check, verified, sizeof verified);
    collect(r, verified, &f);
    if (options->format == FORMAT_JSON)
        print_json(r, &f);
    if (options->format == FORMAT_CSV) {
        if (!header_printed)
            print_csv_header(&f);
        header_printed = true;
        print_csv(&f);
    }
    if (options->format == FORMAT_TABLE)
        report_table(r, several);
    (void)fflush(stdout);
}

static void report_set(FILE *to, const bench_result *first, const bench_result *end) {
    double logs = 0.0, least = HUGE_VAL;
    const char *worst = "";
    int rows = 0;
    for (const bench_result *r = first; r < end; r++) {
        const double speedup = result_speedup(r);
        if (speedup <= 0.0 || strcmp(r->job->set, first->job->set) != 0 ||
            strcmp(r->backend, first->backend) != 0)
            continue;
        logs += log(speedup);
        rows++;
        if (speedup < least) {
            least = speedup;
            worst = r->job->layer;
        }
    }
    if (rows > 0)
        fprintf(to, "%s on %s: geometric mean %.3f x the baseline over %d rows, least %.3f (%s)\n",
                first->job->set, first->backend, exp(logs / rows), rows, least, worst);
}

/* Whether an earlier result began the same set on the same backend. */
static bool is_reported(const bench_result *results, const bench_result *r) {
    for (const bench_result *e = results; e < r; e++)
        if (strcmp(e->job->set, r->job->set) == 0 && strcmp(e->backend, r->backend) == 0)
            return true;
    return false;
}

void report_sets(const bench_options *options, const bench_result *results, size_t count) {
    FILE *to = options->format == FORMAT_TABLE ? stdout : stderr;
    for (const bench_result *r = results; r < results + count; r++)
        if (r->job->set[0] && !is_reported(results, r))
            report_set(to, r, results + count);
}
