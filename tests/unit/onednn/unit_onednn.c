/*
 * unit_onednn absent        algorithm onednn says why it is not there; fused works
 * unit_onednn other FILE    both work after a host loaded another oneDNN, FILE, for all to see
 * Exit status: 0 passed, 1 failed, 77 this build cannot tell.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dsconv/dsconv.h>

enum { C = 16, SIDE = 9, K = 24, SKIP = 77 };

/* Whether the module can be opened with symbols of its own. */
#if defined(__SANITIZE_ADDRESS__)
enum { ALONE = 0 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { ALONE = 0 };
#else
enum { ALONE = 1 };
#endif
#else
enum { ALONE = 1 };
#endif

static bool expect(bool condition, const char *what) {
    if (!condition)
        fprintf(stderr, "FAIL: %s: %s\n", what, dsconv_last_message());
    return condition;
}

static dsconv_problem small_problem(void) {
    dsconv_problem problem = DSCONV_PROBLEM_INIT;
    problem.c = C;
    problem.h = problem.w = SIDE;
    problem.k = K;
    problem.pad_top = problem.pad_bottom = problem.pad_left = problem.pad_right = 1;
    return problem;
}

/* x = 1, all weights 1: inside the border each mid is 9, each y 9 * C. */
static bool computes(dsconv_context *context, const char *algo) {
    static float x[C * SIDE * SIDE], w_dw[C * 9], w_pw[K * C], y[K * SIDE * SIDE];
    const dsconv_problem problem = small_problem();
    dsconv_plan_params params = DSCONV_PLAN_PARAMS_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    dsconv_plan *plan = NULL;

    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = 1.0F;
    for (size_t i = 0; i < sizeof w_dw / sizeof *w_dw; i++)
        w_dw[i] = 1.0F;
    for (size_t i = 0; i < sizeof w_pw / sizeof *w_pw; i++)
        w_pw[i] = 1.0F;
    memset(y, 0xff, sizeof y);
    params.algo = algo;
    weights.w_dw = w_dw;
    weights.w_pw = w_pw;
    bool good = expect(dsconv_plan_create(context, &problem, &params, &plan) == DSCONV_OK, algo) &&
                expect(dsconv_plan_set_weights(plan, &weights) == DSCONV_OK, algo) &&
                expect(dsconv_plan_query(plan, &info) == DSCONV_OK, algo);
    run.x = x;
    run.y = y;
    run.workspace_size = info.workspace_size;
    run.workspace = malloc(info.workspace_size + 1);
    good = good && expect(run.workspace && dsconv_run(plan, &run) == DSCONV_OK, algo);
    for (size_t i = 0; i < sizeof y / sizeof *y && good; i++) {
        const size_t row = i / SIDE % SIDE, column = i % SIDE;
        const float rows = row == 0 || row == SIDE - 1 ? 2.0F : 3.0F;
        const float columns = column == 0 || column == SIDE - 1 ? 2.0F : 3.0F;
        good = expect(y[i] == rows * columns * (float)C, "y is not the exact sum");
    }
    free(run.workspace);
    dsconv_plan_destroy(plan);
    return good;
}

/* A file that is no module, in the directory that is searched first. */
static bool hide_module(char directory[], char file[], size_t size) {
    if (!mkdtemp(directory))
        return false;
    (void)snprintf(file, size, "%s/dsconv_onednn.so", directory);
    FILE *module = fopen(file, "w");
    return module && fclose(module) == 0 && setenv("DSCONV_BACKEND_DIR", directory, 1) == 0;
}

static bool works_without(void) {
    char directory[] = "/tmp/dsconv_onednn_XXXXXX", file[64] = "";
    const dsconv_problem problem = small_problem();
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context = NULL;

    params.backend = "cpu";
    bool good = hide_module(directory, file, sizeof file) &&
                expect(dsconv_context_create(&params, &context) == DSCONV_OK, "context");
    good = good &&
           expect(dsconv_supports(context, &problem, "onednn") == DSCONV_ERROR_UNSUPPORTED,
                  "onednn without its module") &&
           expect(strstr(dsconv_last_message(), "dsconv_onednn.so") != NULL, "names the module") &&
           expect(dsconv_supports(context, &problem, NULL) == DSCONV_OK, "auto") &&
           computes(context, "fused") && computes(context, "generic");
    dsconv_context_destroy(context);
    (void)unlink(file);
    (void)rmdir(directory);
    return good;
}

static bool works_beside(const char *other) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context = NULL;

    if (!dlopen(other, RTLD_NOW | RTLD_GLOBAL)) {
        fprintf(stderr, "FAIL: %s\n", dlerror());
        return false;
    }
    params.backend = "cpu";
    bool good = expect(dlsym(RTLD_DEFAULT, "dnnl_primitive_execute") != NULL, "other oneDNN") &&
                expect(dsconv_context_create(&params, &context) == DSCONV_OK, "context") &&
                computes(context, "onednn") && computes(context, "fused");
    dsconv_context_destroy(context);
    return good;
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "absent") == 0)
        return works_without() ? EXIT_SUCCESS : EXIT_FAILURE;
    if (argc == 3 && strcmp(argv[1], "other") == 0) {
        if (ALONE)
            return works_beside(argv[2]) ? EXIT_SUCCESS : EXIT_FAILURE;
        fprintf(stderr, "the address sanitizer allows no RTLD_DEEPBIND\n");
        return SKIP;
    }
    fprintf(stderr, "usage: %s absent | other FILE\n", argv[0]);
    return 2;
}
