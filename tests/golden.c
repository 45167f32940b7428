/*
 * Problems computed in double by PyTorch's two convolutions, against a backend and algorithm:
 *
 *   golden FOLDER BACKEND [ALGO]
 *
 * FOLDER holds one folder per case: problem.txt, the inputs as .npy, and y and mid as .npy in
 * double, in the problem's layout. Exit status: 0 all agree, 1 a failure or nothing ran, 77 no such
 * device.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "npy.h"
#include "problem.h"
#include "trial.h"

enum { EXIT_USAGE = 2 };

/* To be freed; NULL when out of memory. */
static char *join(const char *folder, const char *name, const char *suffix) {
    char *path;
    return asprintf(&path, "%s/%s%s", folder, name, suffix) >= 0 ? path : NULL;
}

static double *read_array(const char *folder, const char *name, int64_t count) {
    char *path = join(folder, name, ".npy");
    double *values = path != NULL ? npy_read(path, count) : NULL;
    if (values == NULL)
        printf("FAIL: %s/%s.npy does not hold %lld numbers\n", folder, name, (long long)count);
    free(path);
    return values;
}

/* Replaces generated data by that of a file, whose values must be representable. */
static bool load(void *data, dsconv_dtype dtype, const char *folder, const char *name,
                 int64_t count) {
    if (data == NULL)
        return true;
    double *values = read_array(folder, name, count);
    bool ok = values != NULL;
    for (int64_t i = 0; ok && i < count; i++) {
        element_set(data, dtype, i, values[i]);
        ok = element_get(data, dtype, i) == values[i];
    }
    free(values);
    return ok;
}

static bool load_material(material *m, const char *folder) {
    const dsconv_problem *problem = &m->problem;
    const int64_t channels = problem_mid_channels(problem);
    const dsconv_dtype dtype = problem->dtype;
    return load(m->memory[0], dtype, folder, "x", tensor_count(&m->in.x)) &&
           load(m->memory[1], dtype, folder, "w_dw", channels * problem->r * problem->s) &&
           load(m->memory[2], dtype, folder, "w_pw", problem->k * channels) &&
           load(m->memory[3], dtype, folder, "b_dw", channels) &&
           load(m->memory[4], dtype, folder, "b_pw", problem->k) &&
           load(m->memory[5], dtype, folder, "res", tensor_count(&m->in.residual));
}

static bool read_problem(const char *folder, dsconv_problem *problem) {
    char text[PROBLEM_TEXT_SIZE] = "", error[PROBLEM_ERROR_SIZE] = "cannot be read";
    char *path = join(folder, "problem", ".txt");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    bool ok = file != NULL && fgets(text, sizeof text, file) != NULL;
    text[strcspn(text, "\n")] = '\0';
    ok = ok && problem_parse(text, problem, error);
    if (!ok)
        printf("FAIL: %s/problem.txt: %s\n", folder, error);
    if (file != NULL)
        fclose(file);
    free(path);
    return ok;
}

/* Once with mid as an output and one thread, once without and with two. */
static outcome run_material(const target *t, material *m, const expectation *expected) {
    outcome result = OUTCOME_PASS;
    for (int variant = 0; result == OUTCOME_PASS && variant < 2; variant++) {
        outputs out;
        m->problem.output_mid = variant == 0;
        result = trial_execute(t, m, variant, &out);
        if (result == OUTCOME_PASS && !trial_verify(t, m, &out, expected))
            result = OUTCOME_FAIL;
        outputs_free(&out);
    }
    return result;
}

static outcome run_case(const target *t, const char *folder) {
    dsconv_problem problem;
    material m;
    if (!read_problem(folder, &problem) || !material_make(&m, &problem, MATERIAL_UNIFORM, 0))
        return OUTCOME_FAIL;
    const tensor y = problem_y(&problem), mid = problem_mid(&problem);
    double *y_values = read_array(folder, "y", tensor_count(&y));
    double *mid_values = read_array(folder, "mid", tensor_count(&mid));
    const expectation expected = {y_values, mid_values};
    outcome result = OUTCOME_FAIL;
    if (y_values != NULL && mid_values != NULL && load_material(&m, folder))
        result = run_material(t, &m, &expected);
    if (result == OUTCOME_FAIL)
        printf("  case: %s\n", folder);
    free(y_values);
    free(mid_values);
    material_free(&m);
    return result;
}

static int is_case(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

static int run_all(const target *t, const char *folder) {
    struct dirent **entries;
    long counts[3] = {0};
    const int cases = scandir(folder, &entries, is_case, alphasort);
    for (int i = 0; i < cases; i++) {
        char *path = join(folder, entries[i]->d_name, "");
        counts[path != NULL ? run_case(t, path) : OUTCOME_FAIL]++;
        free(path);
        free(entries[i]);
    }
    if (cases >= 0)
        free(entries);
    return target_conclude(t, counts[OUTCOME_PASS], counts[OUTCOME_FAIL],
                           counts[OUTCOME_UNSUPPORTED]);
}

int main(int argc, char **argv) {
    if (argc < 3 || argc > 4) {
        fputs("usage: golden FOLDER BACKEND [ALGO]\n", stderr);
        return EXIT_USAGE;
    }
    target t;
    const int status = target_open(&t, argv[2], argc > 3 ? argv[3] : NULL);
    if (status >= 0)
        return status;
    trial_watch_crashes();
    const int result = run_all(&t, argv[1]);
    target_close(&t);
    return result;
}
