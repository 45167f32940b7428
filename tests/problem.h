/*
 * The problem string, which tests and bench share:
 *
 *   n=16,c=64,h=512,w=512,k=128,r=3,s=3,stride=1,pad=1,dil=1,mult=1,dtype=f32,layout=nchw,
 *   math=strict,bias=0,mid=none,out=none,res=none
 *
 * Keys may come in any order, and what is missing takes the value above (s that of r, when only r
 * is given). A named problem may come first, and later keys change it: "kernelbench86,dtype=bf16".
 *
 *   stride, dil     one number, or HxW
 *   pad             one number, HxW, or top:bottom:left:right
 *   dtype           f32 f16 bf16 i8
 *   layout, math    nchw nhwc; strict tf32
 *   bias, res       0 dw pw both; none before after
 *   mid, out        none relu relu6 leaky_relu[:SLOPE] silu hardswish hardsigmoid sigmoid gelu
 *                   gelu_tanh
 *   midout          1: mid is an output too
 *   xstrides, ystrides, rstrides    N:C:H:W element strides of x, y and residual (row pitch, slice
 *                                   of a larger tensor); without them the tensor is dense
 */
#ifndef DSCONV_TESTS_PROBLEM_H
#define DSCONV_TESTS_PROBLEM_H

#include <stdbool.h>

#include <dsconv/dsconv.h>

enum { PROBLEM_TEXT_SIZE = 768, PROBLEM_ERROR_SIZE = 192 };

/** Reads a problem string. On failure *problem is undefined and `error` says which key and value
 *  were wrong. Ranges are left to dsconv_problem_query(). */
bool problem_parse(const char *text, dsconv_problem *problem, char error[PROBLEM_ERROR_SIZE]);

/** Writes the canonical one-line string, which parses back to an equal problem. */
void problem_print(const dsconv_problem *problem, char text[PROBLEM_TEXT_SIZE]);

#endif
