#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "message.h"
#include "problem.h"
#include "structs.h"

/* A caller's workspace may lie anywhere; a backend's begins at a multiple of this. */
enum { WORKSPACE_ALIGNMENT = 256 };

struct dsconv_plan {
    dsconv_context *context;
    void *made; /* the backend's */
    dsconv_shape shape;
    dsconv_problem_info cost;
    dsconv_backend_plan_info info;
    size_t workspace_size; /* what the caller provides: room to align is in it */
    bool has_weights;
};

static dsconv_status make(dsconv_plan *plan, const dsconv_plan_params *params) {
    const dsconv_context *context = plan->context;
    dsconv_message message = {""};
    dsconv_status status =
        context->backend->supports(context->handle, &plan->shape, params->algo, &message);
    if (!status)
        status = context->backend->plan_create(context->handle, &plan->shape, params, &plan->made,
                                               &plan->info, &message);
    if (status)
        return dsconv_context_fail(context, status, &message);
    if (plan->info.workspace_size)
        plan->workspace_size = plan->info.workspace_size + WORKSPACE_ALIGNMENT - 1;
    dsconv_log_line(&context->log, DSCONV_LOG_INFO, "%s: plan with %s (%s)", context->backend->name,
                    plan->info.algo, plan->info.kernel);
    dsconv_log_line(&context->log, DSCONV_LOG_DEBUG,
                    "%s: %g flops, %g compulsory bytes, workspace %zu", context->backend->name,
                    plan->cost.flops, plan->cost.compulsory_bytes, plan->workspace_size);
    return DSCONV_OK;
}

dsconv_status dsconv_plan_create(dsconv_context *context, const dsconv_problem *problem,
                                 const dsconv_plan_params *params, dsconv_plan **plan) {
    if (!plan)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "plan = NULL");
    *plan = NULL;
    dsconv_shape shape;
    dsconv_problem_info cost;
    dsconv_plan_params own = DSCONV_PLAN_PARAMS_INIT;
    dsconv_status status = dsconv_context_check(context);
    if (!status && params)
        status = dsconv_struct_read(&own, sizeof own, params, "params");
    if (!status)
        status = dsconv_problem_check(problem, &shape, &cost);
    if (status)
        return status;

    dsconv_plan *created = calloc(1, sizeof *created);
    if (!created)
        return dsconv_fail(DSCONV_ERROR_OUT_OF_MEMORY, "out of host memory");
    created->context = context;
    created->shape = shape;
    created->cost = cost;
    status = make(created, &own);
    if (status) {
        free(created);
        return status;
    }
    dsconv_context_hold(context);
    *plan = created;
    return DSCONV_OK;
}

void dsconv_plan_destroy(dsconv_plan *plan) {
    if (!plan)
        return;
    if (!dsconv_context_lost(plan->context))
        plan->context->backend->plan_destroy(plan->context->handle, plan->made);
    dsconv_context_release(plan->context);
    free(plan);
}

dsconv_status dsconv_plan_query(const dsconv_plan *plan, dsconv_plan_info *info) {
    dsconv_status status = dsconv_struct_check(info, "info");
    if (status)
        return status;
    if (!plan)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "plan = NULL");
    const dsconv_plan_info own = {
        .struct_size = sizeof own,
        .backend = plan->context->backend->name,
        .algo = plan->info.algo,
        .kernel = plan->info.kernel,
        .uses_tf32 = plan->info.uses_tf32,
        .p = plan->shape.p,
        .q = plan->shape.q,
        .flops = plan->cost.flops,
        .compulsory_bytes = plan->cost.compulsory_bytes,
        .workspace_size = plan->workspace_size,
    };
    dsconv_struct_write(info, &own, sizeof own);
    return DSCONV_OK;
}

/* A pointer that must be there exactly when `wanted`, aligned as the elements are. */
static dsconv_status check_pointer(const dsconv_plan *plan, const char *name, const void *pointer,
                                   bool wanted) {
    size_t size = dsconv_element_size(plan->shape.problem.dtype);
    if (wanted && !pointer)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s = NULL", name);
    if (!wanted && pointer)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "%s = %p: must be NULL, the problem has none", name, pointer);
    if ((uintptr_t)pointer % size)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "%s = %p: must be aligned to %zu bytes",
                           name, pointer, size);
    return DSCONV_OK;
}

static dsconv_status check_weights(const dsconv_plan *plan, const dsconv_weights *weights) {
    uint32_t bias = plan->shape.problem.bias;
    dsconv_status status = check_pointer(plan, "w_dw", weights->w_dw, true);
    if (!status)
        status = check_pointer(plan, "w_pw", weights->w_pw, true);
    if (!status)
        status = check_pointer(plan, "bias_dw", weights->bias_dw, bias & DSCONV_BIAS_DW);
    if (!status)
        status = check_pointer(plan, "bias_pw", weights->bias_pw, bias & DSCONV_BIAS_PW);
    if (!status && (unsigned)weights->memory > DSCONV_MEMORY_DEVICE)
        status = dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "memory = %d: no such value",
                             (int)weights->memory);
    return status;
}

dsconv_status dsconv_plan_set_weights(dsconv_plan *plan, const dsconv_weights *weights) {
    if (!plan)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "plan = NULL");
    const dsconv_context *context = plan->context;
    dsconv_message message = {""};
    dsconv_weights own;
    dsconv_status status = dsconv_struct_read(&own, sizeof own, weights, "weights");
    if (!status)
        status = dsconv_context_check(context);
    if (!status && plan->has_weights)
        status = dsconv_fail(DSCONV_ERROR_STATE, "plan: its weights were set before");
    if (!status)
        status = check_weights(plan, &own);
    if (status)
        return status;
    status = context->backend->set_weights(context->handle, plan->made, &own, &message);
    if (status)
        return dsconv_context_fail(context, status, &message);
    plan->has_weights = true;
    return DSCONV_OK;
}

static dsconv_status check_aliases(const dsconv_plan *plan, const dsconv_run_params *run) {
    const dsconv_problem *problem = &plan->shape.problem;
    if (run->x == run->y)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "y = %p: must not be x", run->y);
    if (run->mid && (run->mid == run->x || run->mid == run->y || run->mid == run->residual))
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "mid = %p: must be a tensor of its own",
                           run->mid);
    if (run->residual == run->y &&
        memcmp(problem->residual_strides, problem->y_strides, sizeof problem->y_strides) != 0)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "residual = %p: may be y only with the strides of y", run->residual);
    return DSCONV_OK;
}

static dsconv_status check_run(const dsconv_plan *plan, const dsconv_run_params *run) {
    const dsconv_problem *problem = &plan->shape.problem;
    dsconv_status status = check_pointer(plan, "x", run->x, true);
    if (!status)
        status = check_pointer(plan, "y", run->y, true);
    if (!status)
        status = check_pointer(plan, "residual", run->residual, problem->residual != 0);
    if (!status)
        status = check_pointer(plan, "mid", run->mid, problem->output_mid != 0);
    if (!status)
        status = check_aliases(plan, run);
    if (status)
        return status;
    if (run->workspace_size < plan->workspace_size)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT,
                           "workspace_size = %zu: must be at least %zu", run->workspace_size,
                           plan->workspace_size);
    if (plan->workspace_size && !run->workspace)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "workspace = NULL: %zu bytes are needed",
                           plan->workspace_size);
    return DSCONV_OK;
}

dsconv_status dsconv_run(const dsconv_plan *plan, const dsconv_run_params *params) {
    if (!plan)
        return dsconv_fail(DSCONV_ERROR_INVALID_ARGUMENT, "plan = NULL");
    const dsconv_context *context = plan->context;
    dsconv_message message = {""};
    dsconv_run_params own;
    dsconv_status status = dsconv_struct_read(&own, sizeof own, params, "params");
    if (!status)
        status = dsconv_context_check(context);
    if (!status && !plan->has_weights)
        status = dsconv_fail(DSCONV_ERROR_STATE, "plan: its weights are not set yet");
    if (status || plan->shape.problem.n == 0)
        return status;
    status = check_run(plan, &own);
    if (status)
        return status;
    if (plan->workspace_size) {
        size_t skip = -(uintptr_t)own.workspace % WORKSPACE_ALIGNMENT;
        own.workspace = (char *)own.workspace + skip;
        own.workspace_size -= skip;
    }
    status = context->backend->run(context->handle, plan->made, &own, &message);
    return status ? dsconv_context_fail(context, status, &message) : DSCONV_OK;
}
