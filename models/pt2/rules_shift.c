#include "models/pt2/rules.h"

#include <assert.h>
#include <string.h>

// What moves data and is not one slice, join or turn.

static bool is_clean(const struct pt2_node *node)
{
    return !node->program->err->kind;
}

static const struct draft_value *result(const struct pt2_node *node)
{
    const struct draft_value *out = node->output_count ? node->outputs[0] : NULL;
    if (!out && is_clean(node)) pt2_fail(node, "it has no result");
    return out;
}

// (self, pad): from the last dimension on, each before and behind.
bool pt2_pad(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    int count = 0;
    const int64_t *pad = pt2_ints(node, pt2_has(node, "pad") ? "pad" : "padding", &count);
    if (!x || !out || !is_clean(node)) return false;
    if (count % 2 != 0 || count / 2 > x->rank) return pt2_fail(node, "%d paddings", count);
    int64_t pads[2 * RANK_MOST] = {0};
    for (int i = 0; i < count / 2; i++) {
        pads[x->rank - 1 - i] = pad[2 * i];
        pads[2 * x->rank - 1 - i] = pad[2 * i + 1];
    }
    const char *const inputs[] = {x->name, draft_list(node->draft, pads, 2 * x->rank)};
    Onnx__NodeProto *proto = draft_put(node->draft, "Pad", out->name, 2, inputs);
    bool reflects = strstr(node->target, "reflection") != NULL;
    bool repeats = strstr(node->target, "replication") != NULL;
    if (reflects || repeats)
        draft_put_text(node->draft, proto, "mode", reflects ? "reflect" : "edge");
    return is_clean(node);
}

bool pt2_tile(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    int64_t wide[RANK_MOST], times[RANK_MOST];
    int more = out->rank - x->rank;
    for (int i = 0; i < out->rank; i++) {
        wide[i] = i < more ? 1 : x->dims[i - more];
        if (wide[i] < 1 || out->dims[i] % wide[i] != 0)
            return pt2_fail(node, "dimension %d is no multiple of what is repeated", i);
        times[i] = out->dims[i] / wide[i];
    }
    const char *spread = draft_between(node->draft);
    const char *const inputs[] = {x->name, draft_list(node->draft, wide, out->rank)};
    draft_put(node->draft, "Reshape", spread, 2, inputs);
    const char *const tiled[] = {spread, draft_list(node->draft, times, out->rank)};
    draft_put(node->draft, "Tile", out->name, 2, tiled);
    return is_clean(node);
}

// (self, repeats, dim): each place so many times, one behind the other.
bool pt2_repeat_each(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    int64_t times = pt2_int(node, "repeats", 0), wide[RANK_MOST + 1], dims[RANK_MOST + 1];
    if (!x || !out || !is_clean(node)) return false;
    int64_t axis = pt2_has(node, "dim") ? pt2_axis(node, "dim", 0, x->rank) : -1;
    bool fits = times > 0 && x->rank < RANK_MOST && is_clean(node);
    if (!fits) return is_clean(node) ? pt2_fail(node, "a number of times is wanted") : false;
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        wide[rank] = dims[rank] = x->dims[i];
        rank++;
        bool is_it = i == (axis < 0 ? x->rank - 1 : axis);
        if (!is_it) continue;
        wide[rank] = 1;
        dims[rank++] = times;
    }
    const char *apart = draft_between(node->draft), *spread = draft_between(node->draft);
    draft_put(node->draft, "Reshape", apart, 2,
              (const char *const[]){x->name, draft_list(node->draft, wide, rank)});
    draft_put(node->draft, "Expand", spread, 2,
              (const char *const[]){apart, draft_list(node->draft, dims, rank)});
    draft_put(node->draft, "Reshape", out->name, 2,
              (const char *const[]){spread, draft_list(node->draft, out->dims, out->rank)});
    return is_clean(node);
}

static const char *put_slice(const struct pt2_node *node, const char *x, int64_t axis,
                             int64_t start, int64_t end, int64_t step, const char *output)
{
    assert(step != 0);
    const char *name = output ? output : draft_between(node->draft);
    const char *const inputs[] = {
        x, draft_list(node->draft, &start, 1), draft_list(node->draft, &end, 1),
        draft_list(node->draft, &axis, 1), draft_list(node->draft, &step, 1)};
    draft_put(node->draft, "Slice", name, 5, inputs);
    return name;
}

// What is pushed out at one end comes in at the other, one dimension after another.
bool pt2_roll(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    int count = 0, axes = 0;
    const int64_t *shifts = pt2_ints(node, "shifts", &count), *dims = pt2_ints(node, "dims", &axes);
    if (!x || !out || !is_clean(node)) return false;
    if (count < 1 || axes != count) return pt2_fail(node, "a shift of each dimension is wanted");
    const char *name = x->name;
    for (int i = 0; i < count; i++) {
        int64_t axis = dims[i] < 0 ? dims[i] + x->rank : dims[i];
        if (axis < 0 || axis >= x->rank || x->dims[axis] < 1)
            return pt2_fail(node, "dims are not those of its tensor");
        int64_t size = x->dims[axis], first = ((-shifts[i] % size) + size) % size;
        const char *parts[] = {put_slice(node, name, axis, first, size, 1, NULL),
                               put_slice(node, name, axis, 0, first, 1, NULL)};
        name = i + 1 == count ? out->name : draft_between(node->draft);
        draft_put_int(node->draft, draft_put(node->draft, "Concat", name, first ? 2 : 1, parts),
                      "axis", axis);
    }
    return is_clean(node);
}

bool pt2_flip(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    int count = 0;
    const int64_t *dims = pt2_ints(node, "dims", &count);
    if (!x || !out || !is_clean(node)) return false;
    if (count < 1) return pt2_same(node, type);
    const char *name = x->name;
    for (int i = 0; i < count; i++)
        name = put_slice(node, name, dims[i], -1, -(INT64_C(1) << 62), -1,
                         i + 1 == count ? out->name : NULL);
    return is_clean(node);
}

bool pt2_unbind(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node);
    if (!x) return false;
    int64_t axis = pt2_axis(node, "dim", 0, x->rank);
    if (!is_clean(node) || node->output_count < 1) return false;
    int64_t *ones = ARENA_NEW(node->program->arena, int64_t, node->output_count);
    for (int i = 0; i < node->output_count; i++)
        ones[i] = 1;
    const char *first = draft_between(node->draft);
    const struct draft_value *of = pt2_cut(x, &axis);
    const char *const inputs[] = {of->name, draft_list(node->draft, ones, node->output_count)};
    Onnx__NodeProto *proto = draft_put(node->draft, "Split", first, 2, inputs);
    draft_put_int(node->draft, proto, "axis", axis);
    for (int i = 0; i < node->output_count; i++) {
        const struct draft_value *out = node->outputs[i];
        const char *part = i ? draft_between(node->draft) : first;
        if (i) draft_put_output(node->draft, proto, part);
        if (!out) continue;
        if (of != x) {
            pt2_turn_part(node, x, out, part, axis);
            continue;
        }
        const char *const shaped[] = {part, draft_list(node->draft, out->dims, out->rank)};
        draft_put(node->draft, "Reshape", out->name, 2, shaped);
    }
    return is_clean(node);
}

bool pt2_triangle(struct pt2_node *node, const char *type)
{
    (void)type;
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    const char *const inputs[] = {
        x->name, draft_number(node->draft, ELEMENT_INT64, (double)pt2_int(node, "diagonal", 0))};
    Onnx__NodeProto *proto = draft_put(node->draft, "Trilu", out->name, 2, inputs);
    draft_put_int(node->draft, proto, "upper", strstr(node->target, "triu") != NULL);
    return is_clean(node);
}

bool pt2_shuffle(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = result(node);
    if (!x || !out) return false;
    bool is_deep = strcmp(type, "SpaceToDepth") == 0;
    int64_t size = pt2_int(node, is_deep ? "downscale_factor" : "upscale_factor", 1);
    Onnx__NodeProto *proto = draft_put(node->draft, type, out->name, 1, &x->name);
    draft_put_int(node->draft, proto, "blocksize", size);
    return is_clean(node);
}

// (self, dim, index, src): what `index` does not name stays.
bool pt2_scatter(struct pt2_node *node, const char *type)
{
    const struct draft_value *x = pt2_first(node), *out = result(node);
    const struct draft_value *index = pt2_tensor(node, "index");
    const struct draft_value *from = NULL;
    if (pt2_has(node, "src") || pt2_has(node, "source"))
        from = pt2_tensor(node, pt2_has(node, "src") ? "src" : "source");
    if (!x || !out || !index || !is_clean(node))
        return is_clean(node) ? pt2_fail(node, "there is no index") : false;
    const char *const inputs[] = {x->name, index->name,
                                  from ? pt2_as_element(node, from, x->element)
                                       : draft_number(node->draft, x->element, 0)};
    draft_put_int(node->draft, draft_put(node->draft, type, out->name, 3, inputs), "axis",
                  pt2_axis(node, "dim", 0, x->rank));
    return is_clean(node);
}
