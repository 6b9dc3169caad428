#pragma once
#include "models/pt2/node.h"

// What an operator of ATen becomes. `type` is an operator of ONNX (models/onnx/operators.c) for
// rules that make one of any such type; `names` are of operators without overload, and without the
// underscore of those that overwrite their input.

struct pt2_rule {
    const char *names;  // joined by blanks
    bool (*make)(struct pt2_node *node, const char *type);
    const char *type;
};

// NULL where the table has no such row.
const struct pt2_rule *pt2_rule_find(struct arena *arena, const char *target);

typedef bool pt2_maker(struct pt2_node *node, const char *type);

// Element by element, products and norms: rules_math.c
pt2_maker pt2_unary, pt2_rsqrt, pt2_binary, pt2_unequal, pt2_divide, pt2_product, pt2_addmm,
    pt2_baddbmm, pt2_linear, pt2_softmax, pt2_reduce, pt2_where, pt2_masked_fill, pt2_clip,
    pt2_leaky, pt2_elu, pt2_softplus, pt2_hard_sigmoid, pt2_gelu, pt2_dropout;
pt2_maker pt2_layer_norm, pt2_rms_norm, pt2_batch_norm, pt2_group_norm, pt2_attention;
// Moving data: rules_move.c
pt2_maker pt2_same, pt2_cast, pt2_made, pt2_reshape, pt2_transpose, pt2_expand, pt2_slice,
    pt2_select, pt2_split, pt2_concat, pt2_stack, pt2_embedding, pt2_gather, pt2_index,
    pt2_index_put, pt2_cumsum;
// What is known of a value that neither inputs nor parameters go into.
void pt2_know_drawn(const struct pt2_node *node, struct draft_value *made);
// What is turned, so that parts of it may be taken before they are turned, and what is divided.
void pt2_know_made(struct pt2_node *node, struct draft_value *made);
// What to cut along `axis` in place of x: what x is turned from, where samples are no longer in
// front there and the axis becomes one of that.
const struct draft_value *pt2_cut(const struct draft_value *x, int64_t *axis);
// Gives `part`, cut along `axis` of it and without that dimension or with one of 1, the order of x.
void pt2_turn_part(const struct pt2_node *node, const struct draft_value *x,
                   const struct draft_value *part, const char *name, int64_t axis);
// Mixtures of experts: rules_experts.c
pt2_maker pt2_histogram, pt2_grouped_product;
// Windows over images: rules_window.c
pt2_maker pt2_conv, pt2_pool, pt2_adaptive_pool, pt2_resize;

// Recurrences and bags of rows: rules_recurrent.c
pt2_maker pt2_recurrent, pt2_embedding_bag;
// What moves data in more than one step: rules_shift.c; functions of several: rules_several.c
pt2_maker pt2_pad, pt2_tile, pt2_repeat_each, pt2_roll, pt2_flip, pt2_unbind, pt2_triangle,
    pt2_shuffle, pt2_scatter;
pt2_maker pt2_addcmul, pt2_einsum, pt2_glu, pt2_square, pt2_prelu, pt2_rsub, pt2_variance,
    pt2_variance_mean, pt2_arg, pt2_top, pt2_loss, pt2_instance_norm, pt2_weight_norm;

// The first argument, which must be a tensor.
const struct draft_value *pt2_first(const struct pt2_node *node);
// The tensor under another element type: itself, or a Cast of it.
const char *pt2_as_element(const struct pt2_node *node, const struct draft_value *value,
                           enum onnx_element element);
// Element types as ATen numbers them; 0 for those that we do not know.
enum onnx_element pt2_element(int64_t scalar_type);
