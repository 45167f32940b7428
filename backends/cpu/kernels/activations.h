/*
 * The ten activations on vectors.
 *
 * vf_min(a, b) and vf_max(a, b) give b where either is a NaN, so with the value second a NaN stays
 * a NaN. At -Inf the definitions of silu, hardswish and the gelus, v times 0, give a NaN too.
 *
 * Errors against double, over all of float, for results above 2^-100: at most 4 ulp, gelu 8; the
 * tail of gelu_tanh (v < -1) only 2e-5 relative, which is 1e-8 absolute.
 */
#ifndef DSCONV_CPU_ACTIVATIONS_H
#define DSCONV_CPU_ACTIVATIONS_H

#include "dsconv/dsconv.h"
#include "vec.h"

/* -|a| */
CPU_INLINE vf neg_abs(vf a) {
    return vi_as_vf(vi_or(vf_as_vi(a), vi_set1(INT32_MIN)));
}

/* 2^n for an integer n of -126 ... 127. */
CPU_INLINE vf power_of_two(vf n) {
    return vi_as_vf(vi_shl(vi_add(vf_to_vi(n), vi_set1(127)), 23));
}

/* exp(x) for x <= 0. With x = n ln 2 + r, |r| <= ln 2 / 2, (exp(r) - 1 - r) / r^2 is a polynomial
 * of degree 4, minimax (Remez) for the relative error of exp(r), 3.1e-9. */
CPU_INLINE vf exp_negative(vf x) {
    x = vf_max(vf_set1(-104.0F), x); /* rounds to 0 from here on */
    vf n = vf_round(vf_mul(x, vf_set1(0x1.715476p+0F)));
    vf r = vf_fma(n, vf_set1(-0x1.62e4p-1F), x); /* n times this is exact */
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20F), r);
    vf q = vf_fma(vf_set1(0x1.6a2434p-10F), r, vf_set1(0x1.1239e2p-7F));
    q = vf_fma(q, r, vf_set1(0x1.5558f2p-5F));
    q = vf_fma(q, r, vf_set1(0x1.555492p-3F));
    q = vf_fma(q, r, vf_set1(0x1.fffffcp-2F));
    vf p = vf_add(vf_set1(1.0F), vf_fma(q, vf_mul(r, r), r));
    vf half = vf_round(vf_mul(n, vf_set1(0.5F))); /* in two factors, as 2^n may be subnormal */
    return vf_mul(vf_mul(p, power_of_two(half)), power_of_two(vf_sub(n, half)));
}

/* 1 / (1 + exp(-v)), relative accuracy on both sides. */
CPU_INLINE vf logistic(vf v) {
    vf e = exp_negative(neg_abs(v));
    vf numerator = vf_select(vf_lt(vf_zero(), v), vf_set1(1.0F), e);
    return vf_div(numerator, vf_add(vf_set1(1.0F), e));
}

/* The normal distribution's upper tail at a >= 0: exp(-a^2 / 2) G(t) / (a + 3.5) with
 * t = (a - 3.5) / (a + 3.5); G is minimax for the relative error on [0, 15], 8.0e-9. */
CPU_INLINE vf normal_tail(vf a) {
    a = vf_min(vf_set1(15.0F), a);
    vf square = vf_mul(a, a);
    vf rest = vf_fma(a, a, vf_sub(vf_zero(), square)); /* what rounding took from a^2 */
    vf e = exp_negative(vf_mul(vf_set1(-0.5F), square));
    e = vf_fma(vf_mul(vf_set1(-0.5F), rest), e, e);
    vf y = vf_div(vf_set1(1.0F), vf_add(a, vf_set1(3.5F)));
    vf t = vf_fma(y, vf_set1(-7.0F), vf_set1(1.0F));
    vf g = vf_fma(vf_set1(0x1.c7e3dap-14F), t, vf_set1(0x1.b6a45ap-12F));
    g = vf_fma(g, t, vf_set1(-0x1.038b12p-11F));
    g = vf_fma(g, t, vf_set1(-0x1.9fde6ap-9F));
    g = vf_fma(g, t, vf_set1(0x1.a992aap-8F));
    g = vf_fma(g, t, vf_set1(0x1.1d2d4ep-6F));
    g = vf_fma(g, t, vf_set1(-0x1.db5a92p-4F));
    g = vf_fma(g, t, vf_set1(0x1.42feccp-2F));
    g = vf_fma(g, t, vf_set1(-0x1.21914ep-1F));
    g = vf_fma(g, t, vf_set1(0x1.7d241ap-1F));
    return vf_mul(vf_mul(e, y), g);
}

CPU_INLINE vf act_none(vf v, vf alpha) {
    (void)alpha;
    return v;
}

CPU_INLINE vf act_relu(vf v, vf alpha) {
    (void)alpha;
    return vf_max(vf_zero(), v);
}

CPU_INLINE vf act_relu6(vf v, vf alpha) {
    (void)alpha;
    return vf_min(vf_set1(6.0F), vf_max(vf_zero(), v));
}

CPU_INLINE vf act_leaky_relu(vf v, vf alpha) {
    return vf_select(vf_lt(vf_zero(), v), v, vf_mul(alpha, v));
}

CPU_INLINE vf act_silu(vf v, vf alpha) {
    (void)alpha;
    return vf_mul(v, logistic(v));
}

CPU_INLINE vf act_hardsigmoid(vf v, vf alpha) {
    return vf_mul(act_relu6(vf_add(v, vf_set1(3.0F)), alpha), vf_set1(1.0F / 6.0F));
}

CPU_INLINE vf act_hardswish(vf v, vf alpha) {
    return vf_mul(v, act_hardsigmoid(v, alpha));
}

CPU_INLINE vf act_sigmoid(vf v, vf alpha) {
    (void)alpha;
    return logistic(v);
}

CPU_INLINE vf act_gelu(vf v, vf alpha) {
    (void)alpha;
    vf tail = normal_tail(vf_sub(vf_zero(), neg_abs(v)));
    vf share = vf_select(vf_lt(vf_zero(), v), vf_sub(vf_set1(1.0F), tail), tail);
    return vf_mul(v, share);
}

/* (1 + tanh(u)) / 2 is the logistic function of 2u. */
CPU_INLINE vf act_gelu_tanh(vf v, vf alpha) {
    (void)alpha;
    vf cubic = vf_fma(vf_mul(v, v), vf_set1(0x1.2444f2p-4F), vf_set1(0x1.988454p+0F));
    return vf_mul(v, logistic(vf_mul(cubic, v)));
}

#endif
