/*
 * What a backend must do: fill one constant dsconv_backend and hand it out.
 *
 * A backend linked into the core defines `const dsconv_backend dsconv_backend_NAME`. A backend
 * built as a module (a shared object named dsconv_NAME.so) exports one symbol, the function
 * dsconv_backend_entry(). The core opens a module on first need and keeps it open.
 *
 * The core checks every argument once, so a function here may trust what it gets: structures are
 * complete and current, problems are valid with strides filled in, pointers that must exist do.
 * Functions report failure by a status and a text in `message` that says what and why. None may
 * print, abort, exit, throw, or leave the current device changed or a sticky device error behind.
 * Unless said otherwise all may be called from any number of threads at once.
 */
#ifndef DSCONV_BACKEND_H
#define DSCONV_BACKEND_H

#include "dsconv.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Changes with every incompatible change of this file; the core refuses any other value. */
#define DSCONV_BACKEND_ABI 1

/** The only symbol that a module exports. */
#define DSCONV_BACKEND_ENTRY "dsconv_backend_entry"

/** Why a call failed, for the user; filled by the callee, empty on success. */
typedef struct dsconv_message {
    char text[256];
} dsconv_message;

/** A checked problem and what follows from it. */
typedef struct dsconv_shape {
    dsconv_problem problem; /* x, y and residual strides filled in */
    int64_t p, q;           /* output height and width */
    int64_t mid_channels;   /* c * multiplier */
    int64_t mid_strides[4]; /* n, c, h, w: dense in the problem's layout */
} dsconv_shape;

/** What a backend tells of a plan it made. Strings are static or live as long as the plan. */
typedef struct dsconv_backend_plan_info {
    const char *algo;
    const char *kernel;
    int32_t uses_tf32;
    size_t workspace_size; /* the core gives run at least this, aligned to 256 bytes */
} dsconv_backend_plan_info;

/** Bits of dsconv_backend.flags. */
enum {
    DSCONV_BACKEND_HOST_MEMORY = 1,  /* tensors are ordinary host memory */
    DSCONV_BACKEND_SURVIVES_FORK = 2 /* handles made before fork() work in the child */
};

typedef struct dsconv_backend {
    uint32_t abi;         /* DSCONV_BACKEND_ABI */
    uint32_t struct_size; /* sizeof(dsconv_backend) */
    const char *name;     /* [a-z0-9_], as the user writes it */
    uint32_t flags;
    const char *const *algos; /* names for dsconv_plan_params.algo, best known first, then NULL */

    /* Describes device `device`; with device 0 it also answers whether the backend is usable.
     * Must not create a context on any device. UNAVAILABLE: no driver, no device, or a device
     * without code for it, each with its own text. INVALID_ARGUMENT: no such device. */
    dsconv_status (*probe)(int32_t device, dsconv_device_info *info, dsconv_message *message);

    /* Opens a device that probe accepted. `threads` >= 0 as in dsconv_context_params. *handle is
     * the backend's own and goes to every call below. */
    dsconv_status (*open)(int32_t device, int32_t threads, void **handle, dsconv_message *message);

    /* Frees what open made. No plan of the handle exists any more. Tolerates a driver that has
     * already shut down. */
    void (*close)(void *handle);

    /* As dsconv_alloc, dsconv_free (never NULL) and dsconv_copy (size > 0). */
    dsconv_status (*alloc)(void *handle, size_t size, void **pointer, dsconv_message *message);
    void (*free)(void *handle, void *pointer);
    dsconv_status (*copy)(void *handle, void *destination, const void *source, size_t size,
                          dsconv_copy_kind kind, void *stream, dsconv_message *message);

    /* Whether plan_create would accept the problem. algo is NULL or any string at all. OK, or
     * UNSUPPORTED / INVALID_ARGUMENT (no such algorithm) with the reason. Allocates nothing. */
    dsconv_status (*supports)(void *handle, const dsconv_shape *shape, const char *algo,
                              dsconv_message *message);

    /* Makes a plan: chooses the kernel, loads it, reserves what run needs. Fills *info. Called
     * only for what supports accepted. */
    dsconv_status (*plan_create)(void *handle, const dsconv_shape *shape,
                                 const dsconv_plan_params *params, void **plan,
                                 dsconv_backend_plan_info *info, dsconv_message *message);
    void (*plan_destroy)(void *handle, void *plan);

    /* Packs the weights, at most once per plan, and returns when they may be freed. On failure the
     * plan is as before. Not called while another call on this plan runs. */
    dsconv_status (*set_weights)(void *handle, void *plan, const dsconv_weights *weights,
                                 dsconv_message *message);

    /* Runs or enqueues the plan (n > 0). Allocates, loads and waits for nothing; never modifies
     * the plan. workspace is aligned to 256 bytes. */
    dsconv_status (*run)(void *handle, const void *plan, const dsconv_run_params *params,
                         dsconv_message *message);

    /* As dsconv_synchronize. */
    dsconv_status (*sync)(void *handle, void *stream, dsconv_message *message);
} dsconv_backend;

/** Type of dsconv_backend_entry(): returns the module's table, in static storage. */
typedef const dsconv_backend *(*dsconv_backend_entry_fn)(void);

#ifdef __cplusplus
}
#endif

#endif
