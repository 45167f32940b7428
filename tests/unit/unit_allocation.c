/* Allocation failure at call n, for every n, through the whole life of a plan. */
#include "unit.h"

#include <stdlib.h>

#include "unit_alloc.h"

static float x[2 * 4 * 9 * 10], y[2 * 6 * 9 * 10], weight[64];

/* All that a plan goes through; what was made is released again whatever fails. */
static dsconv_status live(const char *backend, const dsconv_problem *problem, const char *algo,
                          void *workspace, size_t workspace_size) {
    dsconv_context_params context_params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_plan_params plan_params = DSCONV_PLAN_PARAMS_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    dsconv_context *context;
    dsconv_plan *plan = NULL;
    context_params.backend = backend;
    plan_params.algo = algo;
    weights.w_dw = weights.w_pw = weight;
    run.x = x;
    run.y = y;
    run.workspace = workspace;
    run.workspace_size = workspace_size;
    dsconv_status status = dsconv_context_create(&context_params, &context);
    if (!status)
        status = dsconv_plan_create(context, problem, &plan_params, &plan);
    if (!status)
        status = dsconv_plan_set_weights(plan, &weights);
    if (!status)
        status = dsconv_run(plan, &run);
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
    return status;
}

static void fail_at_every_call(const char *backend, const dsconv_problem *problem,
                               const char *algo) {
    enum { WORKSPACE = 1 << 22, MOST = 1000 };
    void *workspace = malloc(WORKSPACE);
    int before = unit_live_allocations(), failures = 0;
    dsconv_status status = DSCONV_ERROR_OUT_OF_MEMORY;
    while (status && failures < MOST) {
        unit_fail_after(failures);
        status = live(backend, problem, algo, workspace, WORKSPACE);
        unit_fail_after(-1);
        if (status) {
            unit_expect(status, DSCONV_ERROR_OUT_OF_MEMORY, "memory", backend, failures);
            failures++;
        }
        assert_int_equal(unit_live_allocations(), before);
    }
    assert_true(failures >= 2 && failures < MOST);
    free(workspace);
}

static void every_algorithm(void **state) {
    (void)state;
    static const char *const backends[] = {"cpu", "ref"};
    for (size_t i = 0; i < 2; i++)
        for (int layout = DSCONV_NCHW; layout <= DSCONV_NHWC; layout++) {
            dsconv_problem problem = unit_problem();
            dsconv_context *context = unit_context(backends[i]);
            const char *algo;
            problem.layout = (dsconv_layout)layout;
            fail_at_every_call(backends[i], &problem, NULL);
            for (size_t j = 0; (algo = dsconv_context_algo(context, j)); j++)
                if (dsconv_supports(context, &problem, algo) == DSCONV_OK)
                    fail_at_every_call(backends[i], &problem, algo);
            dsconv_context_destroy(context);
        }
}

/* Running a plan allocates nothing, whatever the algorithm. */
static void run_allocates_nothing(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_context *context = unit_context("cpu");
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    const char *algo;
    for (size_t i = 0; (algo = dsconv_context_algo(context, i)); i++) {
        dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
        if (dsconv_supports(context, &problem, algo))
            continue;
        dsconv_plan *plan = unit_plan(context, &problem, algo);
        expect_ok(dsconv_plan_query(plan, &info));
        run.x = x;
        run.y = y;
        run.workspace = malloc(info.workspace_size + 1);
        run.workspace_size = info.workspace_size;
        int before = unit_allocations();
        expect_ok(dsconv_run(plan, &run));
        assert_int_equal(unit_allocations(), before);
        free(run.workspace);
        dsconv_plan_destroy(plan);
    }
    dsconv_context_destroy(context);
}

/* Twenty thousand different shapes. */
static void shapes_leave_nothing_behind(void **state) {
    (void)state;
    enum { SHAPES = 20000 };
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.backend = "cpu";
    params.threads = 1;
    expect_ok(dsconv_context_create(&params, &context));
    int live_before = unit_live_allocations();
    for (int i = 0; i < SHAPES; i++) {
        dsconv_problem problem = unit_problem();
        problem.n = 1;
        problem.h = 1 + i % 10;
        problem.w = 1 + i / 10 % 10;
        problem.c = 1 + i / 100 % 4;
        problem.k = 1 + i / 400 % 5;
        problem.stride_h = problem.stride_w = 1 + i / 2000 % 2;
        problem.pad_top = i / 4000 % 5 + 1;
        dsconv_plan *plan = unit_plan(context, &problem, NULL);
        dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
        expect_ok(dsconv_problem_query(&problem, &info));
        assert_true(info.y_span <= (int64_t)(sizeof y / sizeof *y));
        expect_ok(unit_run(plan, &problem, y));
        assert_true(y[0] == unit_expected(&problem, 0, 0));
        dsconv_plan_destroy(plan);
        assert_int_equal(unit_live_allocations(), live_before);
    }
    dsconv_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
        cmocka_unit_test(run_allocates_nothing),
        cmocka_unit_test(shapes_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, unit_setup, unit_teardown);
}
