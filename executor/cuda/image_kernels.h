#pragma once
#include "executor/cuda/kernels.h"
#include "executor/planes.h"

// Of the device code (executor/cuda/kernels.h) what works on images.

#ifdef __cplusplus
extern "C" {
#endif

// Operators of imported graphs. Their kinds, as enum imported_kind of the headers of graphs.
enum image_kind {
    IMAGE_NONE,
#define IMPORTED(id, name) IMAGE_##id,
#include "models/imported.inc"
};
struct image_reals {
    struct reals reals;
    struct planes at;
};

// A function of each number; backward: `d` times its slope, given what backward reads as x.
struct bend_args {
    int kind;
    float scalar;
    bool is_backward, adds;
    struct image_reals x, d, y;
};
void kernel_bend(struct CUstream_st *stream, const struct bend_args *args);

// to (+)= factor * from, for some channels of both; strides of `from` may be 0.
struct channels_args {
    int64_t from_channel, to_channel, channels;
    float factor;
    bool adds;
    struct image_reals from, to;
};
void kernel_channels(struct CUstream_st *stream, const struct channels_args *args);

// large: what small is resized to, in a way of enum resizing; backward: small (+)= what large is of
// its places.
struct resize_args {
    int way;
    bool adds;
    struct image_reals large, small;
};
void kernel_resize(struct CUstream_st *stream, const struct resize_args *args);
void kernel_resize_backward(struct CUstream_st *stream, const struct resize_args *args);

// y (+)= factor times the sum of a * b over so many channels, rows and columns from each of y's
// places on; strides of a and b may be 0, and b may be absent.
struct product_args {
    int64_t channels, rows, columns;
    float factor;
    bool adds;
    struct image_reals a, b, y;
};
void kernel_products(struct CUstream_st *stream, const struct product_args *args);

// Pools: the wide side and the narrow one. Backward adds up in `wide` what is in `narrow`.
struct pool_args {
    struct window height, width;
    bool is_max, counts_padding, adds;
    struct image_reals wide, narrow;
    int64_t *kept;  // with the strides of narrow: where in the whole image maxima stood; or NULL
};
void kernel_pool(struct CUstream_st *stream, const struct pool_args *args);
void kernel_pool_backward(struct CUstream_st *stream, const struct pool_args *args);

// Convolutions, either side of which is what is made, or the weight: (narrow channel, wide channel
// of its group, tap); channels are those of a group.
struct slide_args {
    struct window height, width;
    int64_t narrow_channels, wide_channels;
    bool adds;
    struct image_reals wide, narrow;
    struct reals weight;
    // Some samples and rows of the narrow side, and the matrix that goes with them: [sample][wide
    // channel][tap][row][column].
    int64_t first_sample, samples, first_row, rows;
    struct reals matrix;
};
void kernel_slide_narrow(struct CUstream_st *stream, const struct slide_args *args);
void kernel_slide_wide(struct CUstream_st *stream, const struct slide_args *args);
void kernel_slide_weight(struct CUstream_st *stream, const struct slide_args *args);
void kernel_slide_unfold(struct CUstream_st *stream, const struct slide_args *args);
// Adds what is in the matrix up on the wide side.
void kernel_slide_fold(struct CUstream_st *stream, const struct slide_args *args);

// Norms over places (executor/cpu/statistics.c). Sets are the channels of all samples, or some
// channels of each.
struct statistics_args {
    int64_t sets, channels_of_set, pieces;  // pieces: of a plane
    bool is_of_sample, is_shared, adds_x, adds_scale, adds_bias;
    float epsilon;
    double count;  // numbers of a set in the whole
    struct image_reals x, y, d, d_x;
    struct reals scale, bias, mean, inverse, d_scale, d_bias;
    float *partial;  // [plane][piece][2]
    float *sums;     // [2][set]; is_shared: of parts, that ranks add up
};
enum { STATISTICS_PIECE = 1024 };  // places of a plane that a warp adds up
// Of each set the mean and the variance or, of a part, the mean of squares; with `d` means of
// gradients times their scale, and of these times what is normed.
void kernel_statistics_sums(struct CUstream_st *stream, const struct statistics_args *args);
// What is made with them. Backward reads the partial sums as well.
void kernel_statistics(struct CUstream_st *stream, const struct statistics_args *args);
void kernel_statistics_backward(struct CUstream_st *stream, const struct statistics_args *args);

// What goes with loops over the numbers of all samples (models/strided.h), the last of which goes
// round fastest: where a side begins, and what it skips with a turn of each.
enum { STRIDED_LOOPS = 7 };
struct strided_array {
    struct reals reals;
    int64_t first, steps[STRIDED_LOOPS];
};
enum strided_kind { STRIDED_MOVE, STRIDED_ADD, STRIDED_SUBTRACT, STRIDED_MULTIPLY, STRIDED_DIVIDE };
// y (+)= a, a + b, a - b, a b or a / b, no number of y twice. Where both go number by number along
// different loops, a along `a_unit` and y along `y_unit`, a move goes by tiles of these; -1: it
// does not.
struct strided_args {
    int kind, count;
    bool adds;
    int64_t sizes[STRIDED_LOOPS];
    struct strided_array a, b, y;
    int a_unit, y_unit;
};
void kernel_strided(struct CUstream_st *stream, const struct strided_args *args);

// y (+)= for each of its numbers `factor` times the sum of a, of a b or of a / b, over the turns
// that go with it, over its number of `divisor`, if there is one. The first `nested` loops, that of
// y's longest step first and none backwards, say which number of y it is; over the others it is
// repeated. Turns are cut into `pieces`, whose sums are `partial`.
struct strided_sums_args {
    int kind, count, nested;
    bool adds;
    int64_t sizes[STRIDED_LOOPS];
    struct strided_array a, b, y;
    float factor;
    struct reals divisor;  // laid out as y
    int64_t numbers, turns, pieces;
    float *partial;  // [piece][number]; pieces 1: none
};
void kernel_strided_sums(struct CUstream_st *stream, const struct strided_sums_args *args);

#ifdef __cplusplus
}
#endif
