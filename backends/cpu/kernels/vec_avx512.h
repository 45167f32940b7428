/* vec.h for AVX-512 F, BW, DQ and VL. */
#include <immintrin.h>

#define CPU_ISA avx512
enum { VL = 16 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vmask;

CPU_INLINE vmask vmask_first(ptrdiff_t n) {
    return (vmask)(n >= VL ? 0xffffU : n <= 0 ? 0U : (1U << n) - 1);
}

CPU_INLINE vf vf_zero(void) {
    return _mm512_setzero_ps();
}
CPU_INLINE vf vf_set1(float a) {
    return _mm512_set1_ps(a);
}
CPU_INLINE vf vf_load(const float *p) {
    return _mm512_loadu_ps(p);
}
CPU_INLINE vf vf_load_n(const float *p, ptrdiff_t n) {
    return _mm512_maskz_loadu_ps(vmask_first(n), p);
}
CPU_INLINE void vf_store(float *p, vf a) {
    _mm512_storeu_ps(p, a);
}
CPU_INLINE void vf_store_n(float *p, vf a, ptrdiff_t n) {
    _mm512_mask_storeu_ps(p, vmask_first(n), a);
}
/** Stores past the caches; p is aligned to the vector. */
CPU_INLINE void vf_stream(float *p, vf a) {
    _mm512_stream_ps(p, a);
}
/** Elements [begin, end) of a vector; a load of them touches no other and gives zeros there. */
typedef __mmask16 vrange;
CPU_INLINE vrange vrange_of(ptrdiff_t begin, ptrdiff_t end) {
    return (vrange)(vmask_first(end) & ~vmask_first(begin));
}
CPU_INLINE vf vf_load_range(const float *p, vrange range) {
    return _mm512_maskz_loadu_ps(range, p);
}

CPU_INLINE vf vf_load_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
CPU_INLINE vf vf_load_f16_n(const uint16_t *p, ptrdiff_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vmask_first(n), p));
}
CPU_INLINE vf vf_load_bf16(const uint16_t *p) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
CPU_INLINE vf vf_load_bf16_n(const uint16_t *p, ptrdiff_t n) {
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(vmask_first(n), p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
CPU_INLINE void vf_store_f16(uint16_t *p, vf a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
CPU_INLINE void vf_store_f16_n(uint16_t *p, vf a, ptrdiff_t n) {
    _mm256_mask_storeu_epi16(p, vmask_first(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}

CPU_INLINE vf vf_add(vf a, vf b) {
    return _mm512_add_ps(a, b);
}
CPU_INLINE vf vf_sub(vf a, vf b) {
    return _mm512_sub_ps(a, b);
}
CPU_INLINE vf vf_mul(vf a, vf b) {
    return _mm512_mul_ps(a, b);
}
CPU_INLINE vf vf_div(vf a, vf b) {
    return _mm512_div_ps(a, b);
}
/** a * b + c. */
CPU_INLINE vf vf_fma(vf a, vf b, vf c) {
    return _mm512_fmadd_ps(a, b, c);
}
/** a < b ? a : b, so b where either is NaN. */
CPU_INLINE vf vf_min(vf a, vf b) {
    return _mm512_min_ps(a, b);
}
/** a > b ? a : b, so b where either is NaN. */
CPU_INLINE vf vf_max(vf a, vf b) {
    return _mm512_max_ps(a, b);
}
/** The nearest integer, ties to even, for |a| < 2^22. */
CPU_INLINE vf vf_round(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
CPU_INLINE vmask vf_lt(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
CPU_INLINE vmask vf_unordered(vf a, vf b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q);
}
/** mask ? a : b. */
CPU_INLINE vf vf_select(vmask mask, vf a, vf b) {
    return _mm512_mask_blend_ps(mask, b, a);
}

/** Element i is a's element index[i]. */
CPU_INLINE vf vf_permute(vf a, vi index) {
    return _mm512_permutexvar_ps(index, a);
}

CPU_INLINE vi vi_load(const int32_t *p) {
    return _mm512_loadu_si512(p);
}

CPU_INLINE vi vf_as_vi(vf a) {
    return _mm512_castps_si512(a);
}
CPU_INLINE vf vi_as_vf(vi a) {
    return _mm512_castsi512_ps(a);
}

/** VL elements of a followed by b, from element `from`, a constant of at most 7. Cheaper than loads
 *  that cross cache lines, which CPU_WINDOWS says. */
#define CPU_WINDOWS
CPU_INLINE vf vf_window(vf a, vf b, const int from) {
    const __m512i low = vf_as_vi(a), high = vf_as_vi(b);
    switch (from) {
    case 1:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 1));
    case 2:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 2));
    case 3:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 3));
    case 4:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 4));
    case 5:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 5));
    case 6:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 6));
    case 7:
        return vi_as_vf(_mm512_alignr_epi32(high, low, 7));
    default:
        return a;
    }
}

/** As vf_window, with every other element of b, from the one at `odd` on. */
CPU_INLINE vf vf_window_skip(vf a, vf b, const int from, const int odd) {
#define AT(i) (from + (i) < VL ? from + (i) : VL + odd + 2 * (from + (i)-VL))
    if (from == 0)
        return a;
    return _mm512_permutex2var_ps(a,
                                  _mm512_setr_epi32(AT(0), AT(1), AT(2), AT(3), AT(4), AT(5), AT(6),
                                                    AT(7), AT(8), AT(9), AT(10), AT(11), AT(12),
                                                    AT(13), AT(14), AT(15)),
                                  b);
#undef AT
}

/** Separates the elements with even and odd index of a followed by b. */
CPU_INLINE void vf_split(vf a, vf b, vf *even, vf *odd) {
    const __m512i pick =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, pick, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(pick, _mm512_set1_epi32(1)), b);
}

/** To the nearest integer; a is one already, below 2^31. */
CPU_INLINE vi vf_to_vi(vf a) {
    return _mm512_cvtps_epi32(a);
}
CPU_INLINE vf vi_to_vf(vi a) {
    return _mm512_cvtepi32_ps(a);
}
CPU_INLINE vi vi_set1(int32_t a) {
    return _mm512_set1_epi32(a);
}
CPU_INLINE vi vi_add(vi a, vi b) {
    return _mm512_add_epi32(a, b);
}
CPU_INLINE vi vi_and(vi a, vi b) {
    return _mm512_and_si512(a, b);
}
CPU_INLINE vi vi_or(vi a, vi b) {
    return _mm512_or_si512(a, b);
}
CPU_INLINE vi vi_xor(vi a, vi b) {
    return _mm512_xor_si512(a, b);
}
CPU_INLINE vi vi_shl(vi a, int n) {
    return _mm512_slli_epi32(a, (unsigned)n);
}
/** Shifts zeros in from above. */
CPU_INLINE vi vi_shr(vi a, int n) {
    return _mm512_srli_epi32(a, (unsigned)n);
}
CPU_INLINE vi vi_select(vmask mask, vi a, vi b) {
    return _mm512_mask_blend_epi32(mask, b, a);
}
/** Stores the low halves. */
CPU_INLINE void vi_store_u16(uint16_t *p, vi a) {
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(a));
}
CPU_INLINE void vi_store_u16_n(uint16_t *p, vi a, ptrdiff_t n) {
    _mm256_mask_storeu_epi16(p, vmask_first(n), _mm512_cvtepi32_epi16(a));
}
