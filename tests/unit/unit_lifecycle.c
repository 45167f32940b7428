/* Order of calls, NULL, and every pointer and size that run and set_weights take. */
#include "unit.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock_backend.h"

enum { X = 2 * 4 * 9 * 10, Y = 2 * 6 * 9 * 10, MID = X };

static mock_counts *counts(void) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/dsconv_mock.so", unit_module_dir());
    void *module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(module);
    mock_counts *found = dlsym(module, "mock_counts");
    assert_non_null(found);
    (void)dlclose(module);
    return found;
}

static void context_outlives_its_plans(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_context *context = unit_context("mock");
    dsconv_plan *first = unit_plan(context, &problem, NULL);
    dsconv_plan *second = unit_plan(context, &problem, NULL);
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    mock_counts *live = counts();
    assert_int_equal(live->handles, 1);
    assert_int_equal(live->plans, 2);
    dsconv_context_destroy(context);
    assert_int_equal(live->handles, 1);
    dsconv_plan_destroy(first);
    assert_int_equal(live->plans, 1);
    assert_int_equal(live->handles, 1);
    expect_ok(dsconv_plan_query(second, &info));
    assert_string_equal(info.backend, "mock");
    dsconv_plan_destroy(second);
    assert_int_equal(live->plans, 0);
    assert_int_equal(live->handles, 0);
}

static void null_is_refused_or_ignored(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_context *context = unit_context("cpu");
    dsconv_device_info device = DSCONV_DEVICE_INFO_INIT;
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    dsconv_plan *plan = (dsconv_plan *)&problem;
    void *pointer = &problem;
    const dsconv_status invalid = DSCONV_ERROR_INVALID_ARGUMENT;
    dsconv_context_destroy(NULL);
    dsconv_plan_destroy(NULL);
    dsconv_free(NULL, NULL);
    dsconv_free(context, NULL);
    assert_null(dsconv_context_backend(NULL));
    assert_null(dsconv_context_algo(NULL, 0));
    expect_failure(dsconv_context_device(NULL, &device), invalid, "context = NULL");
    expect_failure(dsconv_context_device(context, NULL), invalid, "info = NULL");
    expect_failure(dsconv_supports(NULL, &problem, NULL), invalid, "context = NULL");
    expect_failure(dsconv_alloc(NULL, 1, &pointer), invalid, "context = NULL");
    assert_null(pointer);
    expect_failure(dsconv_alloc(context, 1, NULL), invalid, "pointer = NULL");
    expect_failure(dsconv_synchronize(NULL, NULL), invalid, "context = NULL");
    expect_failure(dsconv_plan_create(NULL, &problem, NULL, &plan), invalid, "context = NULL");
    assert_null(plan);
    expect_failure(dsconv_plan_create(context, &problem, NULL, NULL), invalid, "plan = NULL");
    expect_failure(dsconv_plan_query(NULL, &info), invalid, "plan = NULL");
    expect_failure(dsconv_plan_set_weights(NULL, &weights), invalid, "plan = NULL");
    expect_failure(dsconv_run(NULL, &run), invalid, "plan = NULL");
    plan = unit_plan(context, &problem, NULL);
    expect_failure(dsconv_plan_query(plan, NULL), invalid, "info = NULL");
    expect_failure(dsconv_run(plan, NULL), invalid, "params = NULL");
    expect_failure(dsconv_plan_set_weights(plan, NULL), invalid, "weights = NULL");
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
}

static void memory_and_copies(void **state) {
    (void)state;
    dsconv_context *context = unit_context("cpu");
    char a[4] = "abc", b[4] = "xyz";
    void *pointer = a;
    expect_ok(dsconv_alloc(context, 0, &pointer));
    assert_null(pointer);
    expect_ok(dsconv_alloc(context, 1, &pointer));
    assert_int_equal((uintptr_t)pointer % 256, 0);
    dsconv_free(context, pointer);
    expect_failure(dsconv_alloc(context, SIZE_MAX, &pointer), DSCONV_ERROR_OUT_OF_MEMORY, NULL);
    assert_null(pointer);
    expect_ok(dsconv_copy(context, NULL, NULL, 0, DSCONV_HOST_TO_DEVICE, NULL));
    expect_ok(dsconv_copy(context, a, b, 4, DSCONV_DEVICE_TO_HOST, NULL));
    assert_string_equal(a, "xyz");
    expect_failure(dsconv_copy(context, NULL, b, 4, DSCONV_HOST_TO_DEVICE, NULL),
                   DSCONV_ERROR_INVALID_ARGUMENT, "destination = NULL");
    expect_failure(dsconv_copy(context, a, NULL, 4, DSCONV_HOST_TO_DEVICE, NULL),
                   DSCONV_ERROR_INVALID_ARGUMENT, "source = NULL");
    expect_failure(dsconv_copy(context, a, b, 4, (dsconv_copy_kind)3, NULL),
                   DSCONV_ERROR_INVALID_ARGUMENT, "kind = 3");
    expect_ok(dsconv_synchronize(context, NULL));
    dsconv_context_destroy(context);
}

static void weights_once_and_first(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_context *context = unit_context("cpu");
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    float values[Y] = {0.0F};
    dsconv_plan *plan;
    expect_ok(dsconv_plan_create(context, &problem, NULL, &plan));
    expect_failure(unit_run(plan, &problem, values), DSCONV_ERROR_STATE, "not set yet");
    weights.w_dw = weights.w_pw = values;
    expect_ok(dsconv_plan_set_weights(plan, &weights));
    expect_failure(dsconv_plan_set_weights(plan, &weights), DSCONV_ERROR_STATE, "set before");
    expect_ok(unit_run(plan, &problem, values));
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
}

static void weights_are_checked(void **state) {
    (void)state;
    float values[64] = {0.0F};
    dsconv_context *context = unit_context("cpu");
    const struct {
        dsconv_weights weights;
        uint32_t bias;
        const char *text;
    } bad[] = {
        {{sizeof(dsconv_weights), NULL, values, NULL, NULL, 0}, 0, "w_dw = NULL"},
        {{sizeof(dsconv_weights), values, NULL, NULL, NULL, 0}, 0, "w_pw = NULL"},
        {{sizeof(dsconv_weights), values, values, NULL, values, 0}, 3, "bias_dw = NULL"},
        {{sizeof(dsconv_weights), values, values, values, NULL, 0}, 3, "bias_pw = NULL"},
        {{sizeof(dsconv_weights), values, values, values, values, 0}, 1, "bias_pw = 0x"},
        {{sizeof(dsconv_weights), values, values, values, values, 0}, 2, "bias_dw = 0x"},
        {{sizeof(dsconv_weights), (char *)values + 2, values, NULL, NULL, 0}, 0, "w_dw = 0x"},
        {{sizeof(dsconv_weights), values, values, NULL, NULL, (dsconv_memory)2}, 0, "memory = 2"},
        {{0, values, values, NULL, NULL, 0}, 0, "weights.struct_size = 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dsconv_problem problem = unit_problem();
        dsconv_plan *plan;
        problem.bias = bad[i].bias;
        expect_ok(dsconv_plan_create(context, &problem, NULL, &plan));
        expect_failure(dsconv_plan_set_weights(plan, &bad[i].weights),
                       DSCONV_ERROR_INVALID_ARGUMENT, bad[i].text);
        dsconv_plan_destroy(plan);
    }
    dsconv_context_destroy(context);
}

/* A plan with residual and mid output, and parameters that run it. */
typedef struct fixture {
    dsconv_context *context;
    dsconv_plan *plan;
    dsconv_run_params run;
    float x[X], y[Y], residual[Y], mid[MID];
    void *workspace;
} fixture;

static void set_up(fixture *f, const char *algo, bool extras) {
    dsconv_problem problem = unit_problem();
    dsconv_plan_info info = DSCONV_PLAN_INFO_INIT;
    memset(f, 0, sizeof *f);
    if (extras) {
        problem.residual = DSCONV_RESIDUAL_AFTER_ACT;
        problem.output_mid = 1;
    }
    f->context = unit_context("cpu");
    f->plan = unit_plan(f->context, &problem, algo);
    expect_ok(dsconv_plan_query(f->plan, &info));
    f->workspace = malloc(info.workspace_size + 1);
    f->run = (dsconv_run_params){.struct_size = sizeof f->run,
                                 .x = f->x,
                                 .y = f->y,
                                 .residual = extras ? f->residual : NULL,
                                 .mid = extras ? f->mid : NULL,
                                 .workspace = f->workspace,
                                 .workspace_size = info.workspace_size};
    expect_ok(dsconv_run(f->plan, &f->run));
}

static void tear_down(fixture *f) {
    free(f->workspace);
    dsconv_plan_destroy(f->plan);
    dsconv_context_destroy(f->context);
}

static void run_is_checked(void **state) {
    (void)state;
    fixture f;
    set_up(&f, "generic", true);
    assert_true(f.run.workspace_size > 0);
    const struct {
        size_t offset;
        const void *value;
        const char *text;
    } bad[] = {
        {offsetof(dsconv_run_params, x), NULL, "x = NULL"},
        {offsetof(dsconv_run_params, x), (char *)f.x + 1, "x = 0x"},
        {offsetof(dsconv_run_params, x), f.y, "y = 0x"},
        {offsetof(dsconv_run_params, y), NULL, "y = NULL"},
        {offsetof(dsconv_run_params, y), (char *)f.y + 2, "y = 0x"},
        {offsetof(dsconv_run_params, residual), NULL, "residual = NULL"},
        {offsetof(dsconv_run_params, residual), (char *)f.residual + 3, "residual = 0x"},
        {offsetof(dsconv_run_params, mid), NULL, "mid = NULL"},
        {offsetof(dsconv_run_params, mid), f.x, "mid = 0x"},
        {offsetof(dsconv_run_params, mid), f.y, "mid = 0x"},
        {offsetof(dsconv_run_params, mid), f.residual, "mid = 0x"},
        {offsetof(dsconv_run_params, workspace), NULL, "workspace = NULL"},
        {offsetof(dsconv_run_params, workspace_size), NULL, "workspace_size = 0:"},
        {offsetof(dsconv_run_params, struct_size), NULL, "params.struct_size = 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dsconv_run_params run = f.run;
        memcpy((char *)&run + bad[i].offset, &bad[i].value, sizeof bad[i].value);
        expect_failure(dsconv_run(f.plan, &run), DSCONV_ERROR_INVALID_ARGUMENT, bad[i].text);
    }
    dsconv_run_params run = f.run;
    run.workspace_size--;
    expect_failure(dsconv_run(f.plan, &run), DSCONV_ERROR_INVALID_ARGUMENT, "workspace_size = ");
    run = f.run;
    run.residual = run.y;
    expect_ok(dsconv_run(f.plan, &run));
    run = f.run;
    run.workspace = (char *)run.workspace + 1;
    expect_ok(dsconv_run(f.plan, &run));
    tear_down(&f);

    set_up(&f, "generic", false);
    f.run.residual = f.residual;
    expect_failure(dsconv_run(f.plan, &f.run), DSCONV_ERROR_INVALID_ARGUMENT, "residual = 0x");
    f.run.residual = NULL;
    f.run.mid = f.mid;
    expect_failure(dsconv_run(f.plan, &f.run), DSCONV_ERROR_INVALID_ARGUMENT, "mid = 0x");
    tear_down(&f);
}

static void residual_in_place_needs_the_strides_of_y(void **state) {
    (void)state;
    static const int64_t wide[4] = {2000, 200, 16, 1};
    static float x[X], y[4000];
    dsconv_problem problem = unit_problem();
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    dsconv_context *context = unit_context("ref");
    problem.residual = DSCONV_RESIDUAL_BEFORE_ACT;
    memcpy(problem.residual_strides, wide, sizeof wide);
    dsconv_plan *plan = unit_plan(context, &problem, NULL);
    run.x = x;
    run.y = y;
    run.residual = y;
    run.workspace = malloc(1 << 20);
    run.workspace_size = 1 << 20;
    expect_failure(dsconv_run(plan, &run), DSCONV_ERROR_INVALID_ARGUMENT, "strides of y");
    free(run.workspace);
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
}

static void empty_batch_succeeds(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        dsconv_problem problem = unit_problem();
        dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
        dsconv_context *context = unit_context(i ? "ref" : "cpu");
        problem.n = 0;
        const char *algo;
        for (size_t j = 0; (algo = dsconv_context_algo(context, j)); j++) {
            if (dsconv_supports(context, &problem, algo))
                continue;
            dsconv_plan *plan = unit_plan(context, &problem, algo);
            expect_ok(dsconv_run(plan, &run));
            dsconv_plan_destroy(plan);
        }
        dsconv_context_destroy(context);
    }
}

static void *fail_elsewhere(void *argument) {
    if (*dsconv_last_message())
        return NULL;
    dsconv_problem problem = unit_problem();
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    problem.k = -3;
    (void)dsconv_problem_query(&problem, &info);
    return strstr(dsconv_last_message(), "k = -3") ? argument : NULL;
}

static void messages_belong_to_threads(void **state) {
    (void)state;
    dsconv_problem problem = unit_problem();
    dsconv_problem_info info = DSCONV_PROBLEM_INFO_INIT;
    pthread_t thread;
    void *result;
    problem.c = -5;
    expect_failure(dsconv_problem_query(&problem, &info), DSCONV_ERROR_INVALID_ARGUMENT, "c = -5");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, state), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_non_null(result);
    problem.c = 4;
    expect_ok(dsconv_problem_query(&problem, &info));
    assert_non_null(strstr(dsconv_last_message(), "c = -5"));
}

static void names_and_version(void **state) {
    (void)state;
    char version[32];
    (void)snprintf(version, sizeof version, "%d.%d.%d", DSCONV_VERSION_MAJOR, DSCONV_VERSION_MINOR,
                   DSCONV_VERSION_PATCH);
    assert_string_equal(dsconv_version(), version);
    assert_string_equal(dsconv_status_name(DSCONV_OK), "ok");
    for (int i = 0; i <= DSCONV_ERROR_STATE; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(dsconv_status_name((dsconv_status)i),
                                    dsconv_status_name((dsconv_status)j));
    assert_string_equal(dsconv_status_name((dsconv_status)99), "unknown status");
    assert_string_equal(dsconv_status_name((dsconv_status)-1), "unknown status");
}

static int install_mock(void **state) {
    int failed = unit_setup(state);
    unit_install("mock", "mock");
    return failed;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(context_outlives_its_plans),
        cmocka_unit_test(null_is_refused_or_ignored),
        cmocka_unit_test(memory_and_copies),
        cmocka_unit_test(weights_once_and_first),
        cmocka_unit_test(weights_are_checked),
        cmocka_unit_test(run_is_checked),
        cmocka_unit_test(residual_in_place_needs_the_strides_of_y),
        cmocka_unit_test(empty_batch_succeeds),
        cmocka_unit_test(messages_belong_to_threads),
        cmocka_unit_test(names_and_version),
    };
    return cmocka_run_group_tests(tests, install_mock, unit_teardown);
}
