#include "models/pt2/node.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

bool pt2_fail(const struct pt2_node *node, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = arena_vprint(node->program->arena, format, args);
    va_end(args);
    return err_set(node->program->err, ERR_INPUT, "%s: node %.200s (%.100s): %s",
                   node->program->path, node->name, node->target, text);
}

// The value of an argument and what it is called: {"as_int": 3}. False where it is not there.
static bool argument(const struct pt2_node *node, const char *name, struct json *value,
                     const char **kind)
{
    for (int i = 0; i < node->input_count; i++) {
        if (strcmp(node->input_names[i], name) != 0) continue;
        *value = json_item(&node->inputs[i], 0);
        *kind = json_key(value);
        node->was_read[i] = true;
        return strcmp(*kind, "as_none") != 0;
    }
    return false;
}

bool pt2_has(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind);
}

bool pt2_is_tensor(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind) && strcmp(kind, "as_tensor") == 0;
}

static const struct draft_value *find(const struct pt2_node *node, const struct json *object)
{
    struct pt2_program *program = node->program;
    struct json text = json_get(object, "name", program->err);
    const char *name = json_text(&text, program->err);
    int index = name ? names_find(&program->names, name) : -1;
    if (index >= 0) return &program->values[index];
    if (name) pt2_fail(node, "%.200s is read, but nothing is said of it", name);
    return NULL;
}

const struct draft_value *pt2_tensor(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    if (!argument(node, name, &value, &kind)) return NULL;
    if (strcmp(kind, "as_tensor") == 0) return find(node, &value);
    pt2_fail(node, "argument %s is no tensor", name);
    return NULL;
}

const struct draft_value **pt2_tensors(const struct pt2_node *node, const char *name, int *count)
{
    assert(name && *name);
    struct json value;
    const char *kind;
    *count = 0;
    bool is_there = argument(node, name, &value, &kind);
    bool is_optional = is_there && strcmp(kind, "as_optional_tensors") == 0;
    if (!is_there || (!is_optional && strcmp(kind, "as_tensors") != 0)) {
        pt2_fail(node, "argument %s is no list of tensors", name);
        return NULL;
    }
    int wanted = json_count(&value, node->program->err);
    const struct draft_value **list =
        ARENA_NEW(node->program->arena, const struct draft_value *, wanted);
    for (int i = 0; i < wanted; i++) {
        struct json item = json_item(&value, i);
        bool is_object = json_is_object(&item) && json_member_count(&item, node->program->err) > 0;
        struct json named = is_optional && is_object ? json_item(&item, 0) : item;
        bool is_none = is_optional && (!is_object || strcmp(json_key(&named), "as_tensor") != 0);
        if (!is_none && !(list[i] = find(node, &named))) return NULL;
    }
    *count = wanted;
    return list;
}

// What an object holds first ({"as_int": 3}), or what is no object itself.
static struct json inside(const struct json *value)
{
    struct err fault = {0};
    bool holds = json_is_object(value) && json_member_count(value, &fault) > 0;
    return holds ? json_item(value, 0) : *value;
}

// A number that may be infinite, which JSON has no number for.
static double number_of(const struct pt2_node *node, const struct json *value, const char *kind)
{
    struct err *err = node->program->err;
    if (strcmp(kind, "as_bool") == 0) return json_bool(value, err) ? 1 : 0;
    if (strcmp(kind, "as_sym_int") == 0 || strcmp(kind, "as_sym_float") == 0) {
        struct json inner = inside(value);
        if (json_is_number(&inner)) return json_f64(&inner, -1e300, 1e300, err);
        pt2_fail(node, "%s is computed by the program", kind);
        return 0;
    }
    if (json_is_text(value)) {
        const char *text = json_text(value, err);
        return text && *text == '-' ? -(double)INFINITY : (double)INFINITY;
    }
    return json_f64(value, -DBL_MAX, DBL_MAX, err);
}

double pt2_number(const struct pt2_node *node, const char *name, double fallback)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind) ? number_of(node, &value, kind) : fallback;
}

static int64_t whole_of(const struct pt2_node *node, const struct json *value)
{
    // The end of a slice is the largest number there is, which a double holds as one more.
    double number = json_f64(value, -1e19, 1e19, node->program->err);
    if (number > 0x1p62) return INT64_C(1) << 62;
    return number < -0x1p62 ? -(INT64_C(1) << 62) : (int64_t)number;
}

int64_t pt2_int(const struct pt2_node *node, const char *name, int64_t fallback)
{
    struct json value;
    const char *kind;
    if (!argument(node, name, &value, &kind)) return fallback;
    struct json inner = inside(&value);
    if (json_is_number(&inner)) return whole_of(node, &inner);
    pt2_fail(node, "argument %s is no whole number that the file holds", name);
    return fallback;
}

bool pt2_bool(const struct pt2_node *node, const char *name, bool fallback)
{
    struct json value;
    const char *kind;
    return argument(node, name, &value, &kind) ? json_bool(&value, node->program->err) : fallback;
}

const char *pt2_text(const struct pt2_node *node, const char *name)
{
    struct json value;
    const char *kind;
    bool is_there = argument(node, name, &value, &kind) && strcmp(kind, "as_string") == 0;
    return is_there ? json_text(&value, node->program->err) : NULL;
}

// Number i of a list, or of one number; its length, or -1 where the file holds none.
static int item_of(const struct pt2_node *node, const char *name, int i, struct json *number)
{
    struct json value;
    const char *kind;
    if (!argument(node, name, &value, &kind)) return -1;
    bool is_list = json_is_array(&value);
    int count = is_list ? json_count(&value, node->program->err) : 1;
    if (i >= count) return count;
    struct json item = is_list ? json_item(&value, i) : value;
    *number = inside(&item);
    if (json_is_number(number)) return count;
    pt2_fail(node, "argument %s is no list of numbers that the file holds", name);
    return -1;
}

const int64_t *pt2_ints(const struct pt2_node *node, const char *name, int *count)
{
    struct json number;
    int wanted = item_of(node, name, 0, &number);
    *count = 0;
    if (wanted < 0) return NULL;
    int64_t *ints = ARENA_NEW(node->program->arena, int64_t, wanted);
    for (int i = 0; i < wanted; i++) {
        if (item_of(node, name, i, &number) < 0) return NULL;
        ints[i] = whole_of(node, &number);
    }
    *count = wanted;
    return ints;
}

const double *pt2_numbers(const struct pt2_node *node, const char *name, int *count)
{
    struct json number;
    int wanted = item_of(node, name, 0, &number);
    *count = 0;
    if (wanted < 0) return NULL;
    double *numbers = ARENA_NEW(node->program->arena, double, wanted);
    for (int i = 0; i < wanted; i++) {
        if (item_of(node, name, i, &number) < 0) return NULL;
        numbers[i] = json_f64(&number, -DBL_MAX, DBL_MAX, node->program->err);
    }
    *count = wanted;
    return numbers;
}

int64_t pt2_axis(const struct pt2_node *node, const char *name, int64_t fallback, int rank)
{
    assert(rank >= 0 && rank <= RANK_MOST);
    int64_t axis = pt2_int(node, name, fallback);
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank) return axis;
    pt2_fail(node, "argument %s is no dimension of a tensor of %d", name, rank);
    return 0;
}

const char *pt2_output(const struct pt2_node *node, int i)
{
    assert(i >= 0);
    const struct draft_value *value = i < node->output_count ? node->outputs[i] : NULL;
    return value ? value->name : draft_between(node->draft);
}
