/* vec.h for AVX2 with FMA and F16C. */
#include <immintrin.h>

#define CPU_ISA avx2
enum { VL = 8 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vmask; /* all ones or all zeros per element */

CPU_INLINE __m256i vmask_first(ptrdiff_t n) {
    static const int32_t ones[2 * VL] = {-1, -1, -1, -1, -1, -1, -1, -1};
    ptrdiff_t count = n >= VL ? VL : n <= 0 ? 0 : n;
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + VL - count));
}

/** n < VL elements of two bytes and zeros, without touching what lies behind. */
CPU_INLINE __m128i load_u16_n(const uint16_t *p, ptrdiff_t n) {
    uint16_t buffer[VL] = {0};
    for (ptrdiff_t i = 0; i < n; i++)
        buffer[i] = p[i];
    return _mm_loadu_si128((const __m128i *)(const void *)buffer);
}

CPU_INLINE void store_u16_n(uint16_t *p, __m128i a, ptrdiff_t n) {
    uint16_t buffer[VL];
    _mm_storeu_si128((__m128i *)(void *)buffer, a);
    for (ptrdiff_t i = 0; i < n; i++)
        p[i] = buffer[i];
}

CPU_INLINE vf vf_zero(void) {
    return _mm256_setzero_ps();
}
CPU_INLINE vf vf_set1(float a) {
    return _mm256_set1_ps(a);
}
CPU_INLINE vf vf_load(const float *p) {
    return _mm256_loadu_ps(p);
}
CPU_INLINE vf vf_load_n(const float *p, ptrdiff_t n) {
    return _mm256_maskload_ps(p, vmask_first(n));
}
CPU_INLINE void vf_store(float *p, vf a) {
    _mm256_storeu_ps(p, a);
}
CPU_INLINE void vf_store_n(float *p, vf a, ptrdiff_t n) {
    _mm256_maskstore_ps(p, vmask_first(n), a);
}
/** Stores past the caches; p is aligned to the vector. */
CPU_INLINE void vf_stream(float *p, vf a) {
    _mm256_stream_ps(p, a);
}
/** Elements [begin, end) of a vector; a load of them touches no other and gives zeros there. */
typedef __m256i vrange;
CPU_INLINE vrange vrange_of(ptrdiff_t begin, ptrdiff_t end) {
    return _mm256_andnot_si256(vmask_first(begin), vmask_first(end));
}
CPU_INLINE vf vf_load_range(const float *p, vrange range) {
    return _mm256_maskload_ps(p, range);
}

CPU_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
CPU_INLINE vf vf_load_f16_n(const uint16_t *p, ptrdiff_t n) {
    return n >= VL ? vf_load_f16(p) : _mm256_cvtph_ps(load_u16_n(p, n));
}
CPU_INLINE vf widen_bf16(__m128i a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
}
CPU_INLINE vf vf_load_bf16(const uint16_t *p) {
    return widen_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}
CPU_INLINE vf vf_load_bf16_n(const uint16_t *p, ptrdiff_t n) {
    return n >= VL ? vf_load_bf16(p) : widen_bf16(load_u16_n(p, n));
}
CPU_INLINE void vf_store_f16(uint16_t *p, vf a) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
CPU_INLINE void vf_store_f16_n(uint16_t *p, vf a, ptrdiff_t n) {
    if (n >= VL)
        vf_store_f16(p, a);
    else
        store_u16_n(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT), n);
}

CPU_INLINE vf vf_add(vf a, vf b) {
    return _mm256_add_ps(a, b);
}
CPU_INLINE vf vf_sub(vf a, vf b) {
    return _mm256_sub_ps(a, b);
}
CPU_INLINE vf vf_mul(vf a, vf b) {
    return _mm256_mul_ps(a, b);
}
CPU_INLINE vf vf_div(vf a, vf b) {
    return _mm256_div_ps(a, b);
}
/** a * b + c. */
CPU_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm256_fmadd_ps(a, b, c);
}
/** a < b ? a : b, so b where either is NaN. */
CPU_INLINE vf vf_min(vf a, vf b) {
    return _mm256_min_ps(a, b);
}
/** a > b ? a : b, so b where either is NaN. */
CPU_INLINE vf vf_max(vf a, vf b) {
    return _mm256_max_ps(a, b);
}
/** The nearest integer, ties to even, for |a| < 2^22. */
CPU_INLINE vf vf_round(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
CPU_INLINE vmask vf_lt(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}
CPU_INLINE vmask vf_unordered(vf a, vf b) {
    return _mm256_cmp_ps(a, b, _CMP_UNORD_Q);
}
/** mask ? a : b. */
CPU_INLINE vf vf_select(vmask mask, vf a, vf b) {
    return _mm256_blendv_ps(b, a, mask);
}

/** Element i is a's element index[i]. */
CPU_INLINE vf vf_permute(vf a, vi index) {
    return _mm256_permutevar8x32_ps(a, index);
}

CPU_INLINE vi vi_load(const int32_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/** Separates the elements with even and odd index of a followed by b. */
CPU_INLINE void vf_split(vf a, vf b, vf *even, vf *odd) {
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    *even = _mm256_shuffle_ps(low, high, 0x88);
    *odd = _mm256_shuffle_ps(low, high, 0xdd);
}

CPU_INLINE vi vf_as_vi(vf a) {
    return _mm256_castps_si256(a);
}
CPU_INLINE vf vi_as_vf(vi a) {
    return _mm256_castsi256_ps(a);
}
/** To the nearest integer; a is one already, below 2^31. */
CPU_INLINE vi vf_to_vi(vf a) {
    return _mm256_cvtps_epi32(a);
}
CPU_INLINE vf vi_to_vf(vi a) {
    return _mm256_cvtepi32_ps(a);
}
CPU_INLINE vi vi_set1(int32_t a) {
    return _mm256_set1_epi32(a);
}
CPU_INLINE vi vi_add(vi a, vi b) {
    return _mm256_add_epi32(a, b);
}
CPU_INLINE vi vi_and(vi a, vi b) {
    return _mm256_and_si256(a, b);
}
CPU_INLINE vi vi_or(vi a, vi b) {
    return _mm256_or_si256(a, b);
}
CPU_INLINE vi vi_xor(vi a, vi b) {
    return _mm256_xor_si256(a, b);
}
CPU_INLINE vi vi_shl(vi a, int n) {
    return _mm256_slli_epi32(a, n);
}
/** Shifts zeros in from above. */
CPU_INLINE vi vi_shr(vi a, int n) {
    return _mm256_srli_epi32(a, n);
}
CPU_INLINE vi vi_select(vmask mask, vi a, vi b) {
    return _mm256_blendv_epi8(b, a, _mm256_castps_si256(mask));
}
CPU_INLINE __m128i narrow_u16(vi a) {
    __m256i low = _mm256_and_si256(a, _mm256_set1_epi32(0xffff));
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
    return _mm256_castsi256_si128(packed);
}
/** Stores the low halves. */
CPU_INLINE void vi_store_u16(uint16_t *p, vi a) {
    _mm_storeu_si128((__m128i *)(void *)p, narrow_u16(a));
}
CPU_INLINE void vi_store_u16_n(uint16_t *p, vi a, ptrdiff_t n) {
    if (n >= VL)
        vi_store_u16(p, a);
    else
        store_u16_n(p, narrow_u16(a), n);
}
