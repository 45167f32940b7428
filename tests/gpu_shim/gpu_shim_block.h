/*
 * Blocks of GPU threads on the CPU. Each thread is a fiber, which runs until it waits for others of
 * its block or of its wave. Blocks run one after the other, their threads up or down in turn, so
 * that a missing barrier shows. A block whose threads cannot all go on is given up, and the launch
 * fails with a text that says where they are.
 */
#ifndef GPU_SHIM_BLOCK_H
#define GPU_SHIM_BLOCK_H

#include <stddef.h>
#include <stdint.h>

enum { GPU_SHIM_MAX_THREADS = 1024 }; /* of a block; GPU_MAX_THREADS of a row of the grid */
enum { GPU_SHIM_MAX_ROWS = 65535 };

struct gpu_shim_index {
    unsigned x, y, z;
};

/* Where the running thread is. */
struct gpu_shim_position {
    gpu_shim_index thread, block, threads, blocks;
};
extern gpu_shim_position gpu_shim_at;

/* A place in the source: as a default argument, that of the call. */
struct gpu_shim_site {
    const char *file;
    int line;

    static gpu_shim_site here(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
        return {file, line};
    }
};

struct gpu_shim_operation {
    const char *name;
    gpu_shim_site site;
};

inline int gpu_shim_lane() {
    return (int)(gpu_shim_at.thread.x % GPU_SHIM_WAVE);
}

/* Of the thread's wave: the last one may have fewer. */
inline int gpu_shim_lanes() {
    const unsigned left =
        gpu_shim_at.threads.x - gpu_shim_at.thread.x / GPU_SHIM_WAVE * GPU_SHIM_WAVE;
    return left < GPU_SHIM_WAVE ? (int)left : GPU_SHIM_WAVE;
}

/* Waits until every thread of the block does. */
void gpu_shim_wait_block(const gpu_shim_operation &operation);

/* Every lane of the wave gives `size` bytes and gets those of all, lane after lane. They are there
 * until its next exchange. */
enum { GPU_SHIM_EXCHANGE_SIZE = 64 };
const void *gpu_shim_exchange(const void *mine, size_t size, const gpu_shim_operation &operation);

struct gpu_shim_task {
    const void *kernel; /* its address, by which it is named */
    void (*thread)(const void *data);
    const void *data;
    gpu_shim_index grid;
    int threads;
};

/* False if it failed: gpu_shim_failure() says why. */
bool gpu_shim_launch(const gpu_shim_task &task);
const char *gpu_shim_failure();

/* Makes the running launch fail; the first reason counts. */
void gpu_shim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Leaves the kernel of the running thread after a failure. */
[[noreturn]] void gpu_shim_abandon();

/* "kernel NAME, block B, thread T" of the running thread. */
void gpu_shim_describe(char *text, size_t size);

/* ---- shared memory: gpu_shim_shared.cpp ---- */

/* The calling thread's next declaration. */
void *gpu_shim_shared(size_t size, size_t alignment);

/* Around a launch, within which faults are told apart, and around each of its blocks. */
void gpu_shim_shared_enter();
void gpu_shim_shared_leave();
void gpu_shim_shared_begin_block();
void gpu_shim_shared_end_block();

/* After a thread has run: whether it wrote close beside shared memory. */
void gpu_shim_shared_check();

#endif
