/* vec.h in GCC's vector extension, for any processor. */
#define CPU_ISA portable
enum { VL = 4 };
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu_ __attribute__((vector_size(16)));
typedef vi vmask; /* all ones or all zeros per element */

CPU_INLINE vf vf_set1(float a) {
    return (vf){a, a, a, a};
}
CPU_INLINE vf vf_zero(void) {
    return vf_set1(0.0F);
}
CPU_INLINE vf vf_load(const float *p) {
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
CPU_INLINE vf vf_load_n(const float *p, ptrdiff_t n) {
    vf a = vf_zero();
    for (int i = 0; i < VL && i < n; i++)
        a[i] = p[i];
    return a;
}
/** Elements [begin, end) of a vector; a load of them touches no other and gives zeros there. */
typedef struct vrange {
    ptrdiff_t begin, end;
} vrange;
CPU_INLINE vrange vrange_of(ptrdiff_t begin, ptrdiff_t end) {
    return (vrange){begin, end};
}
CPU_INLINE vf vf_load_range(const float *p, vrange range) {
    vf a = vf_zero();
    for (int i = 0; i < VL; i++)
        if (i >= range.begin && i < range.end)
            a[i] = p[i];
    return a;
}

CPU_INLINE void vf_store(float *p, vf a) {
    memcpy(p, &a, sizeof a);
}
CPU_INLINE void vf_store_n(float *p, vf a, ptrdiff_t n) {
    for (int i = 0; i < VL && i < n; i++)
        p[i] = a[i];
}
/** Where the processor has a store past the caches, the other builds use it. */
CPU_INLINE void vf_stream(float *p, vf a) {
    vf_store(p, a);
}

/** Element i is a's element index[i]. */
CPU_INLINE vf vf_permute(vf a, vi index) {
    vf b = a;
    for (int i = 0; i < VL; i++)
        b[i] = a[index[i]];
    return b;
}

CPU_INLINE vi vi_load(const int32_t *p) {
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}
CPU_INLINE vi vf_as_vi(vf a) {
    return (vi)a;
}
CPU_INLINE vf vi_as_vf(vi a) {
    return (vf)a;
}
CPU_INLINE vi vi_set1(int32_t a) {
    return (vi){a, a, a, a};
}
CPU_INLINE vi vi_add(vi a, vi b) {
    return (vi)((vu_)a + (vu_)b);
}
CPU_INLINE vi vi_and(vi a, vi b) {
    return a & b;
}
CPU_INLINE vi vi_or(vi a, vi b) {
    return a | b;
}
CPU_INLINE vi vi_xor(vi a, vi b) {
    return a ^ b;
}
CPU_INLINE vi vi_shl(vi a, int n) {
    return (vi)((vu_)a << (uint32_t)n);
}
/** Shifts zeros in from above. */
CPU_INLINE vi vi_shr(vi a, int n) {
    return (vi)((vu_)a >> (uint32_t)n);
}
CPU_INLINE vi vi_select(vmask mask, vi a, vi b) {
    return (mask & a) | (~mask & b);
}
/** Stores the low halves. */
CPU_INLINE void vi_store_u16(uint16_t *p, vi a) {
    for (int i = 0; i < VL; i++)
        p[i] = (uint16_t)a[i];
}
CPU_INLINE void vi_store_u16_n(uint16_t *p, vi a, ptrdiff_t n) {
    for (int i = 0; i < VL && i < n; i++)
        p[i] = (uint16_t)a[i];
}

CPU_INLINE vf vf_add(vf a, vf b) {
    return a + b;
}
CPU_INLINE vf vf_sub(vf a, vf b) {
    return a - b;
}
CPU_INLINE vf vf_mul(vf a, vf b) {
    return a * b;
}
CPU_INLINE vf vf_div(vf a, vf b) {
    return a / b;
}
/** a * b + c, here in two roundings. */
CPU_INLINE vf vf_fma(vf a, vf b, vf c) {
    return a * b + c;
}
/** mask ? a : b. */
CPU_INLINE vf vf_select(vmask mask, vf a, vf b) {
    return (vf)vi_select(mask, (vi)a, (vi)b);
}
CPU_INLINE vmask vf_lt(vf a, vf b) {
    return (vmask)(a < b);
}
CPU_INLINE vmask vf_unordered(vf a, vf b) {
    return (vmask)((a != a) | (b != b));
}
/** a < b ? a : b, so b where either is NaN. */
CPU_INLINE vf vf_min(vf a, vf b) {
    return vf_select(a < b, a, b);
}
/** a > b ? a : b, so b where either is NaN. */
CPU_INLINE vf vf_max(vf a, vf b) {
    return vf_select(a > b, a, b);
}
/** The nearest integer, ties to even, for |a| < 2^22. */
CPU_INLINE vf vf_round(vf a) {
    vf magic = vf_set1(0x1.8p23F);
    return (a + magic) - magic;
}
/** To the nearest integer; a is one already, below 2^31. */
CPU_INLINE vi vf_to_vi(vf a) {
    return __builtin_convertvector(a, vi);
}
CPU_INLINE vf vi_to_vf(vi a) {
    return __builtin_convertvector(a, vf);
}

/** Separates the elements with even and odd index of a followed by b. */
CPU_INLINE void vf_split(vf a, vf b, vf *even, vf *odd) {
    *even = (vf){a[0], a[2], b[0], b[2]};
    *odd = (vf){a[1], a[3], b[1], b[3]};
}

/** Exact; scaling by 2^112 makes subnormals right without a branch. */
CPU_INLINE vf widen_f16(vi half) {
    vi magnitude = vi_shl(vi_and(half, vi_set1(0x7fff)), 13);
    vi sign = vi_shl(vi_and(half, vi_set1(0x8000)), 16);
    vf scaled = vi_as_vf(magnitude) * vf_set1(0x1p112F);
    vmask special = magnitude > vi_set1(0x0f7fffff);
    vi bits = vi_select(special, vi_or(magnitude, vi_set1(0x7f800000)), vf_as_vi(scaled));
    return vi_as_vf(vi_or(bits, sign));
}
CPU_INLINE vf vf_load_f16_n(const uint16_t *p, ptrdiff_t n) {
    vi a = vi_set1(0);
    for (int i = 0; i < VL && i < n; i++)
        a[i] = p[i];
    return widen_f16(a);
}
CPU_INLINE vf vf_load_f16(const uint16_t *p) {
    return vf_load_f16_n(p, VL);
}
CPU_INLINE vf vf_load_bf16_n(const uint16_t *p, ptrdiff_t n) {
    vi a = vi_set1(0);
    for (int i = 0; i < VL && i < n; i++)
        a[i] = p[i];
    return vi_as_vf(vi_shl(a, 16));
}
CPU_INLINE vf vf_load_bf16(const uint16_t *p) {
    return vf_load_bf16_n(p, VL);
}

/** Round to nearest even. Below 2^-14, adding 1/2 aligns the last bit kept with bit 0. */
CPU_INLINE vi vf_round_f16(vf a) {
    vi bits = vf_as_vi(a);
    vi sign = vi_and(vi_shr(bits, 16), vi_set1(0x8000));
    vi magnitude = vi_and(bits, vi_set1(0x7fffffff));
    vi odd = vi_and(vi_shr(magnitude, 13), vi_set1(1));
    vi normal = vi_shr(vi_add(magnitude, vi_add(odd, vi_set1(0x0fff - (112 << 23)))), 13);
    vi tiny = vi_add(vf_as_vi(vi_as_vf(magnitude) + vf_set1(0.5F)), vi_set1(-0x3f000000));
    vi nan = vi_or(vi_set1(0x7e00), vi_and(vi_shr(magnitude, 13), vi_set1(0x3ff)));
    vi half = vi_select(magnitude < vi_set1(0x38800000), tiny, normal);
    half = vi_select(magnitude >= vi_set1(0x477ff000), vi_set1(0x7c00), half);
    half = vi_select(magnitude > vi_set1(0x7f800000), nan, half);
    return vi_or(half, sign);
}
CPU_INLINE void vf_store_f16(uint16_t *p, vf a) {
    vi_store_u16(p, vf_round_f16(a));
}
CPU_INLINE void vf_store_f16_n(uint16_t *p, vf a, ptrdiff_t n) {
    vi_store_u16_n(p, vf_round_f16(a), n);
}
