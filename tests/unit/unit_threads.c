/* Contexts, plans and runs from many threads at once. */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 20, Y = 2 * 6 * 9 * 10 };

/* What all threads share: contexts that exist already, and plans with weights. */
typedef struct shared {
    dsconv_context *context;
    dsconv_plan *plan;
    const char *backend;
} shared;

static bool right(const dsconv_problem *problem, const float *y) {
    for (int64_t p = 0; p < 9; p++)
        for (int64_t q = 0; q < 10; q++)
            if (y[p * 10 + q] != unit_expected(problem, p, q))
                return false;
    return true;
}

static bool run_shared_plan(const shared *s) {
    dsconv_problem problem = unit_problem();
    float y[Y];
    return unit_run(s->plan, &problem, y) == DSCONV_OK && right(&problem, y);
}

static bool use_shared_context(const shared *s) {
    dsconv_problem problem = unit_problem();
    static const float values[64];
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_plan *plan;
    weights.w_dw = weights.w_pw = values;
    float y[Y];
    bool good = !dsconv_plan_create(s->context, &problem, NULL, &plan) &&
                !dsconv_plan_set_weights(plan, &weights) && !unit_run(plan, &problem, y) &&
                y[0] == 0.0F;
    dsconv_plan_destroy(plan);
    return good;
}

static bool use_own_context(const shared *s) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_backend_info info = DSCONV_BACKEND_INFO_INIT;
    dsconv_context *context;
    params.backend = s->backend;
    params.threads = 1;
    bool good = dsconv_context_create(&params, &context) == DSCONV_OK;
    for (size_t i = 0; good && i < dsconv_backend_count(); i++)
        good = dsconv_backend_query(i, &info) == DSCONV_OK;
    dsconv_context_destroy(context);
    return good;
}

static bool fail_by_name(const shared *s) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    char name[32];
    (void)s;
    (void)snprintf(name, sizeof name, "no_%lx", (unsigned long)pthread_self() & 0xffffffffffffUL);
    params.backend = name;
    return dsconv_context_create(&params, &context) == DSCONV_ERROR_UNKNOWN_BACKEND &&
           strstr(dsconv_last_message(), name);
}

static void *work(void *argument) {
    static bool (*const jobs[])(const shared *) = {run_shared_plan, use_shared_context,
                                                   use_own_context, fail_by_name};
    for (int i = 0; i < ROUNDS; i++)
        for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++)
            if (!jobs[j](argument))
                return NULL;
    return argument;
}

static void many_threads(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    shared s = {.backend = "cpu"};
    pthread_t threads[THREADS];
    params.backend = "cpu";
    params.threads = 1;
    expect_ok(dsconv_context_create(&params, &s.context));
    s.plan = unit_plan(s.context, &problem, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &s), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_non_null(result);
    }
    dsconv_context_destroy(s.context);
    unit_check_run(s.plan, &problem);
    dsconv_plan_destroy(s.plan);
}

/* All find the module at the same time; it is opened once. */
static void *open_module(void *argument) {
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.backend = "mock";
    dsconv_status status = dsconv_context_create(&params, &context);
    dsconv_context_destroy(context);
    return status ? NULL : argument;
}

static void many_threads_open_a_module(void **state) {
    pthread_t threads[THREADS];
    unit_install("mock", "mock");
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_module, state), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_ptr_equal(result, state);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads),
        cmocka_unit_test(many_threads_open_a_module),
    };
    return cmocka_run_group_tests(tests, unit_setup, unit_teardown);
}
