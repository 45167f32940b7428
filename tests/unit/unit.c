#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char working_dir[64], module_dir[64];

void unit_expect(dsconv_status status, dsconv_status expected, const char *text, const char *file,
                 int line) {
    const char *message = dsconv_last_message();
    if (status == expected && *message && (!text || strstr(message, text)))
        return;
    print_error("%s:%d: expected \"%s\" saying \"%s\", got \"%s\" saying \"%s\"\n", file, line,
                dsconv_status_name(expected), text ? text : "anything", dsconv_status_name(status),
                message);
    _fail(file, line);
}

void unit_expect_ok(dsconv_status status, const char *file, int line) {
    if (status == DSCONV_OK)
        return;
    print_error("%s:%d: %s: %s\n", file, line, dsconv_status_name(status), dsconv_last_message());
    _fail(file, line);
}

dsconv_problem unit_problem(void) {
    dsconv_problem problem = DSCONV_PROBLEM_INIT;
    problem.n = 2;
    problem.c = 4;
    problem.h = 9;
    problem.w = 10;
    problem.k = 6;
    problem.pad_top = problem.pad_bottom = problem.pad_left = problem.pad_right = 1;
    return problem;
}

dsconv_context *unit_context(const char *backend) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.backend = backend;
    expect_ok(dsconv_context_create(&params, &context));
    return context;
}

static float *ones(int64_t count) {
    float *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = 1.0F;
    return values;
}

dsconv_plan *unit_plan(dsconv_context *context, const dsconv_problem *problem, const char *algo) {
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    dsconv_plan_params params = DSCONV_PLAN_PARAMS_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_plan *plan;
    params.algo = algo;
    expect_ok(dsconv_problem_query(problem, &info));
    expect_ok(dsconv_plan_create(context, problem, &params, &plan));
    float *w_dw = ones(info.w_dw_span), *w_pw = ones(info.w_pw_span);
    weights.w_dw = w_dw;
    weights.w_pw = w_pw;
    expect_ok(dsconv_plan_set_weights(plan, &weights));
    free(w_dw);
    free(w_pw);
    return plan;
}

float unit_expected(const dsconv_problem *problem, int64_t p, int64_t q) {
    int taps = 0;
    for (int64_t r = 0; r < problem->r; r++)
        for (int64_t s = 0; s < problem->s; s++) {
            int64_t h = p * problem->stride_h + r * problem->dil_h - problem->pad_top;
            int64_t w = q * problem->stride_w + s * problem->dil_w - problem->pad_left;
            taps += h >= 0 && h < problem->h && w >= 0 && w < problem->w;
        }
    return (float)(taps * problem->c * problem->multiplier);
}

dsconv_status unit_run(const dsconv_plan *plan, const dsconv_problem *problem, float *y) {
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    dsconv_plan_info plan_info = DSCONV_PLAN_INFO_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    if (dsconv_problem_query(problem, &info) || dsconv_plan_query(plan, &plan_info))
        return DSCONV_ERROR_INVALID_ARGUMENT;
    float *x = ones(info.x_span);
    void *workspace = malloc(plan_info.workspace_size + 1);
    run.x = x;
    run.y = y;
    run.workspace = workspace;
    run.workspace_size = plan_info.workspace_size;
    dsconv_status status = dsconv_run(plan, &run);
    free(workspace);
    free(x);
    return status;
}

void unit_check_run(const dsconv_plan *plan, const dsconv_problem *problem) {
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    expect_ok(dsconv_problem_query(problem, &info));
    float *y = ones(info.y_span);
    expect_ok(unit_run(plan, problem, y));
    for (int64_t p = 0; p < info.p; p++)
        for (int64_t q = 0; q < info.q; q++) {
            int64_t pixel = p * info.q + q;
            float got = problem->layout == DSCONV_NCHW ? y[pixel] : y[pixel * problem->k];
            if (got != unit_expected(problem, p, q)) {
                print_error("y[0,0,%d,%d] = %g, expected %g\n", (int)p, (int)q, (double)got,
                            (double)unit_expected(problem, p, q));
                fail();
            }
        }
    free(y);
}

int unit_setup(void **state) {
    (void)state;
    (void)snprintf(working_dir, sizeof working_dir, "/tmp/dsconv_unit_XXXXXX");
    (void)snprintf(module_dir, sizeof module_dir, "/tmp/dsconv_unit_XXXXXX");
    (void)unsetenv("DSCONV_BACKEND");
    (void)unsetenv("DSCONV_LOG");
    if (!mkdtemp(working_dir) || !mkdtemp(module_dir) || chdir(working_dir))
        return 1;
    return setenv("DSCONV_BACKEND_DIR", module_dir, 1);
}

int unit_teardown(void **state) {
    (void)state;
    char command[192];
    (void)snprintf(command, sizeof command, "rm -rf '%s' '%s'", working_dir, module_dir);
    return system(command);
}

const char *unit_module_dir(void) {
    return module_dir;
}

void unit_install_into(const char *directory, const char *file, const char *name) {
    char command[512];
    const char *built = getenv("UNIT_MOCKS");
    assert_non_null(built);
    (void)snprintf(command, sizeof command, "cp '%s/%s.so' '%s/dsconv_%s.so'", built, file,
                   directory, name);
    assert_int_equal(system(command), 0);
}

void unit_install(const char *file, const char *name) {
    unit_install_into(module_dir, file, name);
}

int unit_in_child(int (*function)(void *argument), void *argument) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(60);
        _exit(function(argument));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
