/* A forked child: the CPU goes on working, a device opened before does not. */
#include "unit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock_backend.h"

enum { Y = 2 * 6 * 9 * 10 };

typedef struct objects {
    dsconv_context *context;
    dsconv_plan *with_weights, *without;
    void *memory;
} objects;

static objects make(const char *backend) {
    dsconv_problem problem = unit_problem();
    objects made;
    made.context = unit_context(backend);
    made.with_weights = unit_plan(made.context, &problem, NULL);
    expect_ok(dsconv_plan_create(made.context, &problem, NULL, &made.without));
    expect_ok(dsconv_alloc(made.context, 64, &made.memory));
    return made;
}

static void destroy(const objects *made) {
    dsconv_free(made->context, made->memory);
    dsconv_plan_destroy(made->with_weights);
    dsconv_context_destroy(made->context);
    dsconv_plan_destroy(made->without);
}

static int right(const dsconv_plan *plan) {
    dsconv_problem problem = unit_problem();
    float y[Y];
    if (unit_run(plan, &problem, y))
        return 0;
    for (int64_t p = 0; p < 9; p++)
        for (int64_t q = 0; q < 10; q++)
            if (y[p * 10 + q] != unit_expected(&problem, p, q))
                return 0;
    return 1;
}

/* With a plan of the parent's and with all of its own. */
static int use_host(void *argument) {
    const objects *made = argument;
    dsconv_problem problem = unit_problem();
    static float values[64];
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_context *context;
    dsconv_plan *plan;
    float y[Y];
    weights.w_dw = weights.w_pw = values;
    if (!right(made->with_weights) || dsconv_plan_set_weights(made->without, &weights))
        return 1;
    destroy(made);
    if (dsconv_context_create(NULL, &context) ||
        dsconv_plan_create(context, &problem, NULL, &plan) ||
        dsconv_plan_set_weights(plan, &weights) || unit_run(plan, &problem, y))
        return 2;
    dsconv_plan_destroy(plan);
    dsconv_context_destroy(context);
    return 0;
}

static void works_after_a_parallel_region(void **state) {
    objects made = make(*state);
    assert_true(right(made.with_weights));
    assert_int_equal(unit_in_child(use_host, &made), 0);
    assert_true(right(made.with_weights));
    destroy(&made);
}

static int use_device(void *argument) {
    const objects *made = argument;
    char path[256];
    float values[64] = {0.0F};
    dsconv_problem problem = unit_problem();
    dsconv_weights weights = DSCONV_WEIGHTS_INIT;
    dsconv_run_params run = DSCONV_RUN_PARAMS_INIT;
    void *pointer;
    dsconv_plan *plan;
    weights.w_dw = weights.w_pw = values;
    const dsconv_status refused[] = {
        dsconv_alloc(made->context, 8, &pointer),
        dsconv_copy(made->context, made->memory, values, 8, DSCONV_HOST_TO_DEVICE, NULL),
        dsconv_synchronize(made->context, NULL),
        dsconv_plan_create(made->context, &problem, NULL, &plan),
        dsconv_plan_set_weights(made->without, &weights),
        dsconv_run(made->with_weights, &run),
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i] != DSCONV_ERROR_STATE)
            return 10 + (int)i;
    if (!strstr(dsconv_last_message(), "fork"))
        return 1;

    (void)snprintf(path, sizeof path, "%s/dsconv_mock.so", unit_module_dir());
    void *module = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    mock_counts *counts = module ? dlsym(module, "mock_counts") : NULL;
    if (!counts)
        return 2;
    int before = counts->releases;
    destroy(made);
    if (counts->releases != before)
        return 3;
    /* A device opened in the child works. */
    dsconv_context_params params = DSCONV_CONTEXT_PARAMS_INIT;
    dsconv_context *context;
    params.backend = "mock";
    if (dsconv_context_create(&params, &context) || dsconv_alloc(context, 8, &pointer))
        return 4;
    dsconv_free(context, pointer);
    dsconv_context_destroy(context);
    return counts->releases == before + 2 ? 0 : 5;
}

static void device_is_lost_in_the_child(void **state) {
    (void)state;
    unit_install("mock", "mock");
    objects made = make("mock");
    assert_int_equal(unit_in_child(use_device, &made), 0);
    expect_ok(dsconv_synchronize(made.context, NULL));
    destroy(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(works_after_a_parallel_region, "cpu"),
        cmocka_unit_test_prestate(works_after_a_parallel_region, "ref"),
        cmocka_unit_test(device_is_lost_in_the_child),
    };
    return cmocka_run_group_tests(tests, unit_setup, unit_teardown);
}
