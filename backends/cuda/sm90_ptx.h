/* Hopper's own instructions: barriers in shared memory, the bulk tensor copy engine, wgmma. */
#ifndef DSCONV_CUDA_SM90_PTX_H
#define DSCONV_CUDA_SM90_PTX_H

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>

__device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* ---- barriers: a phase ends when all arrivals and all expected bytes are there ---- */

__device__ __forceinline__ void barrier_init(uint64_t *b, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(arrivals));
}

__device__ __forceinline__ void barrier_init_done() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrier_arrive(uint64_t *b) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

/* A warp arrives with one lane, after a __syncwarp(). racecheck follows a barrier from the threads
 * alone that arrive themselves: for its sake DSCONV_RACECHECK lets all of them do so. */
#ifdef DSCONV_RACECHECK
constexpr int WARP_ARRIVALS = 32;
#else
constexpr int WARP_ARRIVALS = 1;
#endif
__device__ __forceinline__ void barrier_arrive_warp(uint64_t *b, int lane) {
    if (lane < WARP_ARRIVALS)
        barrier_arrive(b);
}

__device__ __forceinline__ void barrier_arrive_and_expect(uint64_t *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)),
                 "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_wait(uint64_t *b, int phase) {
    asm volatile("{\n.reg .pred done;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" ::"r"(shared_address(b)),
                 "r"(phase)
                 : "memory");
}

/* COUNT threads of the block; barrier 0 is __syncthreads(). */
template <int COUNT> __device__ __forceinline__ void threads_sync(int id) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(COUNT) : "memory");
}

/* All threads of a cluster's blocks: what they wrote before arriving, to each other's shared memory
 * too, is seen after waiting. */
__device__ __forceinline__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

__device__ __forceinline__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* The address in the cluster of what lies at `address` in the shared memory of a block. */
__device__ __forceinline__ uint32_t cluster_address(uint32_t address, int rank) {
    uint32_t r;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(address), "r"(rank));
    return r;
}

/* Copies shared memory of this block to a block of the cluster, whose barrier expects the bytes;
 * what threads wrote must be behind fence_async(). Addresses in the cluster but for `from`. */
__device__ __forceinline__ void cluster_copy(uint32_t to, uint32_t from, int bytes,
                                             uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "r"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* Brings memory into the L2 cache: a multiple of 16 bytes, aligned to 16. */
__device__ __forceinline__ void cache_prefetch(const void *from, int bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
}

template <int N> __device__ __forceinline__ void registers_keep() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> __device__ __forceinline__ void registers_take() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* N instead of ENTRY. */
template <int N, int ENTRY> __device__ __forceinline__ void registers_change() {
    if (N < ENTRY)
        registers_keep<N>();
    else
        registers_take<N>();
}

/* ---- tensor copies; outside the tensor they read zeros and write nothing; `at`: the box's first
 * element, innermost dimension first ---- */

/* What others will read too: kept in L2 before what is written once. */
__device__ __forceinline__ uint64_t policy_keep() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__device__ __forceinline__ void tensor_load(void *to, const CUtensorMap *map, uint64_t *barrier,
                                            const int (&at)[4], uint64_t policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".L2::cache_hint [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(shared_address(to)),
        "l"(map), "r"(shared_address(barrier)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]),
        "l"(policy)
        : "memory");
}

__device__ __forceinline__ void tensor_store(const CUtensorMap *map, const void *from,
                                             const int (&at)[4]) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"
                 " [%0, {%2, %3, %4, %5}], [%1];\n"
                 "cp.async.bulk.commit_group;" ::"l"(map),
                 "r"(shared_address(from)), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3])
                 : "memory");
}

/* Until at most N of this thread's stores still read shared memory. */
template <int N> __device__ __forceinline__ void tensor_store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

/* Ordinary writes to shared memory before, wgmma and the copy engine after. */
__device__ __forceinline__ void fence_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* ---- wgmma: 64 x 64 sums += A (registers) * B (shared memory), 8 deep, TF32 ---- */

/* v between bounds; a NaN stays one. */
__device__ __forceinline__ float clamp_f32(float v, float low, float high) {
    asm("max.NaN.f32 %0, %0, %1;\nmin.NaN.f32 %0, %0, %2;" : "+f"(v) : "f"(low), "f"(high));
    return v;
}

__device__ __forceinline__ float round_tf32(float v) {
    uint32_t r;
    asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return __uint_as_float(r);
}

/* A tile without swizzle; core matrices of 8 x 16 bytes, `lead` and `stride` bytes apart along K
 * and along N. */
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, int lead, int stride) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(lead >> 4) << 16 |
           (uint64_t)(stride >> 4) << 32;
}

__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_finish() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#define SM90_SUMS8(d, i)                                                                           \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])

/* add = 0: the sums start from zero. */
__device__ __forceinline__ void wgmma_tf32(float (&d)[32], const uint32_t (&a)[4], uint64_t b,
                                           int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, add, 1, 1;\n}"
                 : SM90_SUMS8(d, 0), SM90_SUMS8(d, 8), SM90_SUMS8(d, 16), SM90_SUMS8(d, 24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}

/* The same with 16-bit operands, 16 deep; neighbours of B along N are neighbours in memory. */
#define SM90_WGMMA_HALF(type)                                                                      \
    __device__ __forceinline__ void wgmma_##type(float(&d)[32], const uint32_t(&a)[4], uint64_t b, \
                                                 int add) {                                        \
        asm volatile(                                                                              \
            "{\n.reg .pred add;\nsetp.ne.b32 add, %37, 0;\n"                                       \
            "wgmma.mma_async.sync.aligned.m64n64k16.f32." #type "." #type " "                      \
            "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "              \
            "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "    \
            "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}"                                          \
            : SM90_SUMS8(d, 0), SM90_SUMS8(d, 8), SM90_SUMS8(d, 16), SM90_SUMS8(d, 24)             \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));                       \
    }
SM90_WGMMA_HALF(f16)
SM90_WGMMA_HALF(bf16)
#undef SM90_WGMMA_HALF

/* ---- four matrices of 8 x 8 in 16 bits to shared memory; a lane's `to`: one row of one ---- */

__device__ __forceinline__ void matrix_store(uint32_t to, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* Each turned: `to` is one column's. */
__device__ __forceinline__ void matrix_store_turned(uint32_t to, const uint32_t (&r)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

#endif
