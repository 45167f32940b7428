#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "memory.h"

/* Flops of a problem that is small enough to run whole on backend `ref` too. */
static const double ref_affordable = 1e9;

static dsconv_status out_of_memory(dsconv_message *message) {
    (void)snprintf(message->text, sizeof message->text, "out of host memory");
    return DSCONV_ERROR_OUT_OF_MEMORY;
}

static int32_t host_threads(const bench_options *options) {
#ifdef _OPENMP
    return options->threads > 0 ? options->threads : omp_get_max_threads();
#else
    return options->threads > 0 ? options->threads : 1;
#endif
}

static void describe(const bench_options *options, const bench_library *l, bench_result *r) {
    *r = (bench_result){.job = l->tensors->job,
                        .uses_tf32 = l->info.uses_tf32 != 0,
                        .threads = l->host ? host_threads(options) : 0,
                        .seed = options->seed,
                        .workspace_size = l->info.workspace_size,
                        .best_peer = -1};
    (void)snprintf(r->backend, sizeof r->backend, "%s", l->info.backend);
    (void)snprintf(r->algo, sizeof r->algo, "%s", l->info.algo);
    (void)snprintf(r->kernel, sizeof r->kernel, "%s", l->info.kernel);
    (void)snprintf(r->device, sizeof r->device, "%s (%s)", l->device.name, l->device.arch);
}

/* Backend `ref` on the same tensors, where it does not take long. */
static dsconv_status verify_ref(const bench_options *options, const bench_tensors *tensors,
                                bench_result *r, dsconv_message *message) {
    if (tensors->job->info.flops > ref_affordable || strcmp(r->backend, "ref") == 0)
        return DSCONV_OK;
    const bench_options plain = {.threads = options->threads};
    bench_library ref;
    dsconv_status status = library_open(&ref, &plain, "ref", tensors, message);
    if (status == DSCONV_OK)
        status = library_run_checked(&ref, message);
    if (status == DSCONV_OK && !check_outputs(tensors, tensors->data[Y], true, false, &r->ref))
        status = out_of_memory(message);
    r->has_ref = status == DSCONV_OK;
    library_close(&ref);
    return status;
}

static dsconv_status verify(bench_library *l, bench_result *r, dsconv_message *message) {
    const dsconv_status status = library_run_checked(l, message);
    if (status != DSCONV_OK)
        return status;
    if (!check_outputs(l->tensors, l->tensors->data[Y], true, r->uses_tf32, &r->check))
        return out_of_memory(message);
    r->verified = true;
    return DSCONV_OK;
}

/* One run of a peer into y; with a residual, what y held before is added. */
static dsconv_status verify_peer(const bench_library *l, const bench_peer *peer,
                                 peer_result *result, dsconv_message *message) {
    const bench_tensors *t = l->tensors;
    bench_check check;
    result->rel_l2 = -1.0;
    if (!peer->checkable)
        return DSCONV_OK;
    if (t->data[RESIDUAL])
        memcpy(t->data[Y], t->data[RESIDUAL], t->size[Y]);
    dsconv_status status = peer->call.run(peer->call.self, message);
    if (status == DSCONV_OK)
        status = library_fetch(l, message);
    if (status != DSCONV_OK)
        return status;
    if (!check_outputs(t, t->data[Y], false, false, &check))
        return out_of_memory(message);
    result->rel_l2 = verdict_rel_l2(&check.y);
    return DSCONV_OK;
}

static void take_times(const bench_candidate *candidates, size_t count, bench_result *r) {
    for (size_t i = 0; i < count; i++) {
        const bench_candidate *c = &candidates[i];
        const double rate = c->work / c->times.median;
        switch (c->role) {
        case ROLE_LIBRARY:
            r->times = c->times;
            break;
        case ROLE_FMA_PEAK:
            r->fma_peak = rate;
            break;
        case ROLE_MIX:
            r->mix_rate = rate > r->mix_rate ? rate : r->mix_rate;
            break;
        case ROLE_BASELINE:
            r->peer[r->peers++].times = c->times;
            break;
        }
    }
    for (int i = 0; i < r->peers; i++)
        if (r->peer[i].comparable &&
            (r->best_peer < 0 || r->peer[i].times.median < r->peer[r->best_peer].times.median))
            r->best_peer = i;
}

static dsconv_status time_all(const bench_options *options, bench_library *l,
                              const bench_timer *timer, void *state, const bench_peers *peers,
                              bench_result *r, dsconv_message *message) {
    bench_candidate candidates[PEERS_MAX + 8] = {
        {.name = "dsconv", .role = ROLE_LIBRARY, .call = {library_run, l}}};
    const bench_traffic traffic = library_traffic(l);
    size_t count = 1;
    count += timer->ceilings(state, &traffic, candidates + count, 8 - count);
    for (size_t i = 0; i < peers->count; i++)
        candidates[count++] = (bench_candidate){
            .name = peers->item[i].name, .role = ROLE_BASELINE, .call = peers->item[i].call};
    const dsconv_status status = bench_measure(
        timer, state, candidates, count, options->reps > 0 ? options->reps : timer->reps, message);
    if (status == DSCONV_OK)
        take_times(candidates, count, r);
    return status;
}

static dsconv_status verify_peers(const bench_options *options, const bench_library *l,
                                  const bench_peers *peers, work_progress progress, bench_result *r,
                                  dsconv_message *message) {
    dsconv_status status = DSCONV_OK;
    for (size_t i = 0; i < peers->count && status == DSCONV_OK; i++) {
        const bench_peer *peer = &peers->item[i];
        r->peer[i] =
            (peer_result){.name = peer->name, .comparable = peer->comparable, .rel_l2 = -1.0};
        memcpy(r->peer[i].kernel, peer->kernel, sizeof peer->kernel);
        if (options->verify) {
            progress("verifying the baseline");
            status = verify_peer(l, peer, &r->peer[i], message);
        }
    }
    return status;
}

static dsconv_status time_with_peers(const bench_options *options, bench_library *l,
                                     work_progress progress, bench_result *r,
                                     dsconv_message *message) {
    const bench_timer *timer = bench_timer_for(l->info.backend, l->host);
    bench_peers peers = {0};
    void *state = NULL;
    dsconv_status status =
        timer->open(l->context, options->device, host_threads(options), &state, message);
    if (status != DSCONV_OK)
        return status;
    if (options->baseline) {
        progress("preparing the baseline");
        status = peers_open(&peers, l, host_threads(options), message);
    }
    if (status == DSCONV_OK)
        status = verify_peers(options, l, &peers, progress, r, message);
    progress("timing");
    if (status == DSCONV_OK)
        status = time_all(options, l, timer, state, &peers, r, message);
    peers_close(&peers);
    timer->close(state);
    return status;
}

dsconv_status work_run(const bench_options *options, const char *backend,
                       const bench_tensors *tensors, work_progress progress, bench_result *r,
                       dsconv_message *message) {
    bench_library library;
    progress("preparing");
    dsconv_status status = library_open(&library, options, backend, tensors, message);
    if (status != DSCONV_OK)
        goto out;
    describe(options, &library, r);
    progress("verifying");
    if (options->verify)
        status = verify(&library, r, message);
    if (options->verify && status == DSCONV_OK)
        status = verify_ref(options, tensors, r, message);
    if (options->time && status == DSCONV_OK && tensors->job->problem.n > 0)
        status = time_with_peers(options, &library, progress, r, message);
    r->peak_memory = memory_peak();
out:
    library_close(&library);
    return status;
}
