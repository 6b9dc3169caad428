#pragma once
#include "plan/layout/layout.h"

// What slices of an image need of their neighbours' where a window slides over it. The wide side of
// a window is what it reads, the narrow side what it makes; a transposed convolution has them the
// other way round, and so has every gradient of x.
//
// Place o of the narrow side reads o * stride - pad + dilation * tap of the wide one; in front of
// the image and behind it padding stands, which nobody sends.

// The places of the wide side that this slice of the narrow one reads; empty for an empty slice.
struct slice window_reads(const struct window *window, int64_t wide, struct slice narrow);
// The places of the narrow side that read any of this slice of the wide one.
struct slice window_feeds(const struct window *window, int64_t narrow, struct slice wide);

// What the slices of a dim cut into `parts`, as layout_slice cuts it, need around them so that the
// slices of the other side, cut likewise, can be made of them alone: the most that any rank needs.
// Sides that are cut each by itself may need more than the window's radius where strides do not
// divide (225 places over 4 ranks, windows of 3 at stride 2: 3 where 224 need 1).
struct halo halo_to_read(const struct window *window, int64_t wide, int64_t narrow, int parts);
struct halo halo_to_feed(const struct window *window, int64_t wide, int64_t narrow, int parts);

// A halo as wide as INT16_MAX is at least so wide, and never near.
//
// Whether every rank has places of a dim of this size, and no fewer than its neighbours want of it:
// a halo never comes from further away.
bool halo_is_near(const struct halo *halo, int64_t size, int parts);
