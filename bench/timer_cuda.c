/*
 * Times of a CUDA device, by KernelBench's protocol: events around one call, the cache flushed
 * before each. Through the driver, opened at run time: the bench links no CUDA.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "timer.h"

typedef uint64_t device_pointer;

/* Entries of libcuda.so.1 in the order of `entry_names`; 0 is success in all of them. */
typedef struct driver {
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*push)(void *context);
    int (*pop)(void **context);
    int (*event_create)(void **event, unsigned flags);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_synchronize)(void *event);
    int (*event_elapsed)(float *milliseconds, void *start, void *stop);
    int (*alloc)(device_pointer *pointer, size_t size);
    int (*free)(device_pointer pointer);
    int (*fill)(device_pointer pointer, unsigned char value, size_t size, void *stream);
    int (*module_load)(void **module, const void *image);
    int (*module_unload)(void *module);
    int (*module_function)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                  void *stream, void **arguments, void **extra);
} driver;

static const char *const entry_names[] = {
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemsetD8Async",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuModuleGetFunction",
    "cuLaunchKernel",
};
enum { ENTRIES = sizeof entry_names / sizeof *entry_names };
_Static_assert(sizeof(driver) == ENTRIES * sizeof(void (*)(void)), "one name per entry");

/* Thread i of as many as there are reads loads 16 bytes, number i, and stores them as numbers i,
 * i + reads, ... below `writes`. What is loaded is used by all: none can be left out. */
static const char mix_kernel[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry mix(.param .u64 from, .param .u64 reads, .param .u64 to, .param .u64 writes)\n"
    "{\n.reg .pred p, q;\n.reg .b32 a, b, c, d, t, n, k, x;\n.reg .b64 i, r, w, f, s, at;\n"
    "mov.u32 k, %ctaid.x;\nmov.u32 n, %ntid.x;\nmov.u32 t, %tid.x;\n"
    "mul.wide.u32 i, k, n;\ncvt.u64.u32 at, t;\nadd.u64 i, i, at;\n"
    "ld.param.u64 f, [from];\nld.param.u64 r, [reads];\n"
    "ld.param.u64 s, [to];\nld.param.u64 w, [writes];\n"
    "setp.ge.u64 p, i, r;\n@p ret;\n"
    "shl.b64 at, i, 4;\nadd.u64 at, f, at;\nld.global.cs.v4.b32 {a, b, c, d}, [at];\n"
    "xor.b32 x, a, b;\nxor.b32 x, x, c;\nxor.b32 x, x, d;\nsetp.eq.b32 q, x, 0x5bd1e995;\n"
    "setp.ge.u64 p, i, w;\n@p bra none;\n"
    "more:\nshl.b64 at, i, 4;\nadd.u64 at, s, at;\nst.global.cs.v4.b32 [at], {a, b, c, d};\n"
    "add.u64 i, i, r;\nsetp.lt.u64 p, i, w;\n@p bra more;\nret;\n"
    "none:\n@q st.global.b32 [s], x;\nret;\n}\n";

enum { FLUSH_SIZE = 256 << 20, MIX_THREADS = 256 };

typedef struct cuda_timer {
    void *library;
    driver cu;
    int device;
    void *context, *start, *stop, *module, *mix;
    device_pointer flush;
    uint64_t from, to, reads, writes; /* of the mix: pointers, and counts of 16 bytes */
} cuda_timer;

static dsconv_status failed(dsconv_message *message, const char *what, int error) {
    (void)snprintf(message->text, sizeof message->text, "timing on cuda: %s: error %d", what,
                   error);
    return DSCONV_ERROR_DEVICE;
}

static int load_entries(cuda_timer *t) {
    t->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void **entry = (void **)&t->cu;
    for (int i = 0; t->library && i < ENTRIES; i++)
        if ((entry[i] = dlsym(t->library, entry_names[i])) == NULL)
            return -1;
    return t->library ? 0 : -1;
}

static void close_timer(void *state) {
    cuda_timer *t = state;
    if (t->context) {
        if (t->module)
            (void)t->cu.module_unload(t->module);
        if (t->flush)
            (void)t->cu.free(t->flush);
        if (t->start)
            (void)t->cu.event_destroy(t->start);
        if (t->stop)
            (void)t->cu.event_destroy(t->stop);
        (void)t->cu.pop(&t->context);
        (void)t->cu.release(t->device);
    }
    if (t->library)
        (void)dlclose(t->library);
    free(t);
}

static dsconv_status open_timer(dsconv_context *context, int32_t device, int32_t threads,
                                void **state, dsconv_message *message) {
    (void)context, (void)threads;
    cuda_timer *t = calloc(1, sizeof *t);
    *state = t;
    if (!t) {
        (void)snprintf(message->text, sizeof message->text, "out of host memory");
        return DSCONV_ERROR_OUT_OF_MEMORY;
    }
    t->device = device;
    void *primary = NULL;
    int error = load_entries(t);
    if (!error)
        error = t->cu.retain(&primary, device);
    if (!error)
        error = t->cu.push(primary);
    if (!error) {
        t->context = primary;
        error = t->cu.event_create(&t->start, 0);
    }
    if (!error)
        error = t->cu.event_create(&t->stop, 0);
    if (!error)
        error = t->cu.alloc(&t->flush, FLUSH_SIZE);
    if (!error)
        error = t->cu.module_load(&t->module, mix_kernel);
    if (!error)
        error = t->cu.module_function(&t->mix, t->module, "mix");
    if (!error)
        return DSCONV_OK;
    close_timer(t);
    *state = NULL;
    return failed(message, "opening", error);
}

static dsconv_status run_mix(void *self, dsconv_message *message) {
    cuda_timer *t = self;
    void *arguments[] = {&t->from, &t->reads, &t->to, &t->writes};
    const uint64_t blocks = (t->reads + MIX_THREADS - 1) / MIX_THREADS;
    int error =
        t->cu.launch(t->mix, (unsigned)blocks, 1, 1, MIX_THREADS, 1, 1, 0, NULL, arguments, NULL);
    return error ? failed(message, "mix of reads and writes", error) : DSCONV_OK;
}

/* The mix of the largest tensor read and the largest written. */
static size_t ceilings(void *state, const bench_traffic *traffic, bench_candidate *candidates,
                       size_t room) {
    cuda_timer *t = state;
    t->reads = t->writes = 0;
    for (int i = 0; i < traffic->count; i++) {
        const uint64_t count = traffic->tensor[i].size / 16;
        uint64_t *const largest = traffic->tensor[i].write ? &t->writes : &t->reads;
        uint64_t *const pointer = traffic->tensor[i].write ? &t->to : &t->from;
        if (count > *largest && (uintptr_t)traffic->tensor[i].data % 16 == 0) {
            *largest = count;
            *pointer = (uint64_t)(uintptr_t)traffic->tensor[i].data;
        }
    }
    if (room == 0 || t->reads == 0 || t->writes == 0)
        return 0;
    candidates[0] = (bench_candidate){
        .name = "mix",
        .role = ROLE_MIX,
        .call = {run_mix, t},
        .work = 16.0 * (double)(t->reads + t->writes),
    };
    return 1;
}

static dsconv_status sample(void *state, const bench_call *call, int repeats, double *seconds,
                            bool *clean, dsconv_message *message) {
    cuda_timer *t = state;
    float milliseconds = 0.0F;
    dsconv_status status = DSCONV_OK;
    int error = t->cu.fill(t->flush, 0, FLUSH_SIZE, NULL);
    if (!error)
        error = t->cu.event_record(t->start, NULL);
    for (int i = 0; !error && i < repeats && status == DSCONV_OK; i++)
        status = call->run(call->self, message);
    if (!error)
        error = t->cu.event_record(t->stop, NULL);
    if (!error)
        error = t->cu.event_synchronize(t->stop);
    if (!error)
        error = t->cu.event_elapsed(&milliseconds, t->start, t->stop);
    *seconds = 1e-3 * (double)milliseconds;
    *clean = true;
    return status || !error ? status : failed(message, "events", error);
}

const bench_timer bench_timer_cuda = {
    .reps = 100,
    .min_seconds = 0.0,
    .open = open_timer,
    .close = close_timer,
    .ceilings = ceilings,
    .sample = sample,
};
