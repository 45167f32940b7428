/*
 * Conformance of a backend and algorithm with the definition:
 *
 *   conform BACKEND [ALGO] [--seed S] [--count N] [--type T] [--outputs K] [--kernel NAME]
 *           [--cases FILE]
 *   conform BACKEND [ALGO] [--seed S] [--fill NAME] --problem STRING
 *   conform --against BACKEND BACKEND [--seed S] [--count N]
 *
 * The first runs N problems whose sums are exact, N random ones, all pairs of activations (of
 * storage type T and with K output channels, if given), and the cases of a file, each line of which
 * is a fill (material.h) and a problem string; all have to be computed by kernel NAME, if given.
 * The second repeats one of them. The third has both backends compute N exact
 * problems and compares their outputs with each other. Exit status: 0 all agree, 1 a failure or
 * nothing ran, 2 wrong usage, 77 no such device here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "problem.h"
#include "trial.h"

enum { EXIT_USAGE = 2 };

typedef struct options {
    const char *backend, *algo; /* with `against`, algo is the second backend */
    const char *cases, *problem, *kernel;
    material_kind fill;
    dsconv_dtype type; /* of all generated problems, where `typed` */
    uint64_t seed, outputs;
    long count;
    bool against, typed;
} options;

typedef struct tally {
    long passed, failed, unsupported;
} tally;

static bool parse_number(const char *text, uint64_t *value) {
    char *end;
    *value = strtoull(text, &end, 0);
    return end != text && *end == '\0';
}

static bool parse_type(const char *name, dsconv_dtype *type) {
    char text[PROBLEM_TEXT_SIZE], error[PROBLEM_ERROR_SIZE];
    dsconv_problem problem;
    snprintf(text, sizeof text, "n=1,c=1,h=1,w=1,k=1,r=1,dtype=%s", name);
    const bool ok = problem_parse(text, &problem, error);
    *type = problem.dtype;
    return ok;
}

static bool parse_option(options *o, const char *name, const char *value) {
    uint64_t count = (uint64_t)o->count;
    bool ok = true;
    if (strcmp(name, "--cases") == 0)
        o->cases = value;
    else if (strcmp(name, "--problem") == 0)
        o->problem = value;
    else if (strcmp(name, "--kernel") == 0)
        o->kernel = value;
    else if (strcmp(name, "--outputs") == 0)
        ok = parse_number(value, &o->outputs);
    else if (strcmp(name, "--type") == 0)
        ok = o->typed = parse_type(value, &o->type);
    else if (strcmp(name, "--fill") == 0)
        ok = (o->fill = material_find(value)) != MATERIAL_KINDS;
    else if (strcmp(name, "--seed") == 0)
        ok = parse_number(value, &o->seed);
    else
        ok = strcmp(name, "--count") == 0 && parse_number(value, &count);
    o->count = (long)count;
    return ok;
}

static bool parse_options(options *o, int argc, char **argv) {
    *o = (options){.seed = 1, .count = 100, .fill = MATERIAL_UNIFORM};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--against") == 0)
            o->against = true;
        else if (strncmp(argv[i], "--", 2) == 0) {
            if (i + 1 == argc || !parse_option(o, argv[i], argv[i + 1]))
                return false;
            i++;
        } else if (o->backend == NULL)
            o->backend = argv[i];
        else if (o->algo == NULL)
            o->algo = argv[i];
        else
            return false;
    }
    return o->backend != NULL && (!o->against || o->algo != NULL);
}

static void count_outcome(tally *counts, outcome result) {
    counts->passed += result == OUTCOME_PASS;
    counts->failed += result == OUTCOME_FAIL;
    counts->unsupported += result == OUTCOME_UNSUPPORTED;
}

static void run_one(const target *t, const dsconv_problem *problem, material_kind kind,
                    uint64_t seed, tally *counts) {
    material m;
    if (!material_make(&m, problem, kind, seed)) {
        puts("FAIL: out of memory for the inputs");
        counts->failed++;
        return;
    }
    count_outcome(counts, trial_run(t, &m));
    material_free(&m);
}

static void run_generated(const target *t, const options *o, material_kind kind, tally *counts) {
    rng random = {o->seed * 2 + (kind == MATERIAL_EXACT)};
    for (long i = 0; i < o->count; i++) {
        dsconv_problem problem =
            generate_problem(&random, kind == MATERIAL_EXACT, (int64_t)o->outputs);
        if (o->typed)
            problem.dtype = o->type;
        run_one(t, &problem, kind, rng_next(&random), counts);
    }
}

/* Every activation at both places, in both layouts. */
static void run_activations(const target *t, const options *o, tally *counts) {
    static const int kinds = DSCONV_ACT_GELU_TANH + 1;
    dsconv_problem problem;
    char error[PROBLEM_ERROR_SIZE];
    if (!problem_parse("n=1,c=9,h=5,w=19,k=11,bias=both,res=after", &problem, error)) {
        printf("FAIL: %s\n", error);
        counts->failed++;
        return;
    }
    if (o->typed)
        problem.dtype = o->type;
    if (o->outputs > 0)
        problem.k = (int64_t)o->outputs;
    for (int i = 0; i < 2 * kinds * kinds; i++) {
        problem.act_mid = (dsconv_activation){(dsconv_activation_kind)(i % kinds), 0.1F};
        problem.act_out = (dsconv_activation){(dsconv_activation_kind)(i / kinds % kinds), -0.4F};
        problem.layout = (dsconv_layout)(i / kinds / kinds);
        run_one(t, &problem, MATERIAL_UNIFORM, o->seed, counts);
    }
}

static bool run_case(const target *t, const options *o, char *line, tally *counts) {
    char *problem_text = strchr(line, ' ');
    if (problem_text == NULL)
        return false;
    *problem_text++ = '\0';
    const material_kind kind = material_find(line);
    char error[PROBLEM_ERROR_SIZE];
    dsconv_problem problem;
    if (kind == MATERIAL_KINDS || !problem_parse(problem_text, &problem, error))
        return false;
    run_one(t, &problem, kind, o->seed, counts);
    return true;
}

static void run_cases(const target *t, const options *o, tally *counts) {
    char line[PROBLEM_TEXT_SIZE];
    FILE *file = fopen(o->cases, "r");
    if (file == NULL) {
        printf("FAIL: cannot open %s\n", o->cases);
        counts->failed++;
        return;
    }
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] == '\0' || line[0] == '#' || run_case(t, o, line, counts))
            continue;
        printf("FAIL: %s: cannot read the case '%s'\n", o->cases, line);
        counts->failed++;
    }
    fclose(file);
}

static int conform(const options *o) {
    target t;
    const int status = target_open(&t, o->backend, o->algo);
    if (status >= 0)
        return status;
    t.kernel = o->kernel;
    tally counts = {0};
    if (o->problem != NULL) {
        dsconv_problem problem;
        char error[PROBLEM_ERROR_SIZE];
        if (!problem_parse(o->problem, &problem, error)) {
            printf("%s\n", error);
            target_close(&t);
            return EXIT_USAGE;
        }
        run_one(&t, &problem, o->fill, o->seed, &counts);
    } else {
        run_generated(&t, o, MATERIAL_EXACT, &counts);
        run_generated(&t, o, MATERIAL_UNIFORM, &counts);
        run_activations(&t, o, &counts);
        if (o->cases != NULL)
            run_cases(&t, o, &counts);
    }
    const int result = target_conclude(&t, counts.passed, counts.failed, counts.unsupported);
    target_close(&t);
    return result;
}

static outcome compare(const target *a, const target *b, const material *m) {
    outputs left, right;
    outcome result = trial_execute(a, m, 0, &left);
    if (result == OUTCOME_PASS) {
        result = trial_execute(b, m, 0, &right);
        if (result == OUTCOME_PASS &&
            !(tensor_same(&left.y, &right.y) && tensor_same(&left.mid, &right.mid))) {
            trial_complain(a, m, "differs from the other backend");
            result = OUTCOME_FAIL;
        }
        outputs_free(&right);
    }
    outputs_free(&left);
    return result;
}

static int against(const options *o) {
    target a, b;
    int status = target_open(&a, o->backend, NULL);
    if (status >= 0)
        return status;
    status = target_open(&b, o->algo, NULL);
    if (status >= 0) {
        target_close(&a);
        return status;
    }
    tally counts = {0};
    rng random = {o->seed};
    for (long i = 0; i < o->count; i++) {
        const dsconv_problem problem = generate_problem(&random, true, 0);
        material m;
        if (!material_make(&m, &problem, MATERIAL_EXACT, rng_next(&random))) {
            counts.failed++;
            continue;
        }
        count_outcome(&counts, compare(&a, &b, &m));
        material_free(&m);
    }
    printf("against %s: ", o->algo);
    const int result = target_conclude(&a, counts.passed, counts.failed, counts.unsupported);
    target_close(&a);
    target_close(&b);
    return result;
}

int main(int argc, char **argv) {
    options o;
    if (!parse_options(&o, argc, argv)) {
        fputs("usage: conform BACKEND [ALGO] [--seed S] [--count N] [--type T] [--outputs K]\n"
              "               [--kernel NAME] [--cases FILE]\n"
              "       conform BACKEND [ALGO] [--seed S] [--fill NAME] --problem STRING\n"
              "       conform --against BACKEND BACKEND [--seed S] [--count N]\n",
              stderr);
        return EXIT_USAGE;
    }
    trial_watch_crashes();
    return o.against ? against(&o) : conform(&o);
}
