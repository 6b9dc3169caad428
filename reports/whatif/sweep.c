#include "reports/whatif/sweep.h"

#include "core/units.h"
#include "planner/batch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum number { NUMBER_WHOLE, NUMBER_FACTOR, NUMBER_PRECISION };

// The cluster of a point is a copy of its own, nodes and devices included.
struct sweep_draft {
    struct arena *arena;
    struct cluster *cluster;
    struct workload *workload;
};

static bool set_nodes(struct sweep_draft *draft, double value, struct err *err)
{
    return cluster_set_nodes(draft->cluster, (int64_t)value, err);
}

static bool set_gpus(struct sweep_draft *draft, double value, struct err *err)
{
    draft->cluster = sweep_cluster(draft->arena, draft->cluster, (int64_t)value, err);
    return draft->cluster != NULL;
}

static bool set_seq_len(struct sweep_draft *draft, double value, struct err *err)
{
    (void)err;
    draft->workload->seq_len = (int64_t)value;
    return true;
}

static bool set_global_batch(struct sweep_draft *draft, double value, struct err *err)
{
    (void)err;
    draft->workload->global_batch = (int64_t)value;
    return true;
}

static bool set_precision(struct sweep_draft *draft, double value, struct err *err)
{
    (void)err;
    draft->workload->precision = (enum precision)(int)value;
    return true;
}

static bool scale_network(struct sweep_draft *draft, double value, struct err *err)
{
    (void)err;
    for (int i = 0; i < draft->cluster->node_group_count; i++) {
        draft->cluster->nodes[i].nics.bandwidth_bytes_per_s *= value;
    }
    return true;
}

static bool scale_intra(struct sweep_draft *draft, double value, struct err *err)
{
    (void)err;
    for (int i = 0; i < draft->cluster->node_group_count; i++) {
        draft->cluster->nodes[i].intra.bandwidth_bytes_per_s *= value;
    }
    return true;
}

static bool scale_memory(struct sweep_draft *draft, double value, struct err *err)
{
    for (int i = 0; i < draft->cluster->node_group_count; i++) {
        struct device *device = device_copy(draft->arena, draft->cluster->nodes[i].device);
        double bytes = floor((double)device->memory_bytes * value);
        if (bytes < 1 || bytes > 1e15) {
            return err_set(err, ERR_USAGE, "--memory-factor: %g of %s is no memory", value,
                           device->name);
        }
        device->memory_bytes = (int64_t)bytes;
        draft->cluster->nodes[i].device = device;
    }
    return true;
}

static bool scale_flops(struct sweep_draft *draft, double value, struct err *err)
{
    for (int i = 0; i < draft->cluster->node_group_count; i++) {
        struct device *device = device_copy(draft->arena, draft->cluster->nodes[i].device);
        for (int precision = 0; precision < PRECISION_COUNT; precision++) {
            double *peak = &device->peak_flop_per_s[precision];
            *peak *= value;
            if (*peak > DEVICE_PEAK_HIGH || (*peak > 0 && *peak < 1)) {
                return err_set(err, ERR_USAGE, "--flops-factor: %g of %s is no rate", value,
                               device->name);
            }
        }
        device->kernels = NULL;  // they were measured on another device than this one
        draft->cluster->nodes[i].device = device;
    }
    return true;
}

static bool scale_price(struct sweep_draft *draft, double value, struct err *err)
{
    (void)err;
    draft->cluster->price.per_gpu_hour *= value;
    draft->cluster->price.spot_per_gpu_hour *= value;
    return true;
}

static const struct {
    const char *option, *key, *head;
    enum number kind;
    double low, high;
    bool (*apply)(struct sweep_draft *draft, double value, struct err *err);
} AXES[SWEEP_AXIS_COUNT] = {
    {"--nodes", "nodes", "nodes", NUMBER_WHOLE, 1, CLUSTER_NODES_MAX, set_nodes},
    {"--gpus", "gpus", "gpus", NUMBER_WHOLE, 1, CLUSTER_GPUS_MAX, set_gpus},
    {"--seq-len", "seq_len", "seq", NUMBER_WHOLE, 1, 1 << 30, set_seq_len},
    {"--global-batch", "global_batch", "batch", NUMBER_WHOLE, 1, 1 << 20, set_global_batch},
    {"--precision", "precision", "precision", NUMBER_PRECISION, 0, 0, set_precision},
    {"--bandwidth-factor", "bandwidth_factor", "net", NUMBER_FACTOR, 1e-6, 1e6, scale_network},
    {"--intra-bandwidth-factor", "intra_bandwidth_factor", "intra", NUMBER_FACTOR, 1e-6, 1e6,
     scale_intra},
    {"--memory-factor", "memory_factor", "memory", NUMBER_FACTOR, 1e-6, 1e6, scale_memory},
    {"--flops-factor", "flops_factor", "flops", NUMBER_FACTOR, 1e-6, 1e6, scale_flops},
    {"--price-factor", "price_factor", "price", NUMBER_FACTOR, 1e-6, 1e6, scale_price},
};

const char *sweep_option(enum sweep_axis axis)
{
    assert(axis < SWEEP_AXIS_COUNT);
    return AXES[axis].option;
}

const char *sweep_key(enum sweep_axis axis)
{
    assert(axis < SWEEP_AXIS_COUNT);
    return AXES[axis].key;
}

const char *sweep_head(enum sweep_axis axis)
{
    assert(axis < SWEEP_AXIS_COUNT);
    return AXES[axis].head;
}

const char *sweep_value_text(struct arena *arena, enum sweep_axis axis, double value)
{
    assert(axis < SWEEP_AXIS_COUNT);
    char number[UNITS_NUMBER_BYTES];
    switch (AXES[axis].kind) {
    case NUMBER_PRECISION:
        return precision_name((enum precision)(int)value);
    case NUMBER_FACTOR:
        return arena_print(arena, "x%s", units_number(number, value));
    case NUMBER_WHOLE:
        break;
    }
    return arena_copy(arena, units_number(number, value));
}

static bool read_number(enum sweep_axis axis, const char *text, double *value, struct err *err)
{
    const char *option = AXES[axis].option;
    int64_t whole = 0;
    if (AXES[axis].kind == NUMBER_WHOLE) {
        if (!units_parse_i64(text, option, (int64_t)AXES[axis].low, (int64_t)AXES[axis].high,
                             &whole, err)) {
            return false;
        }
        *value = (double)whole;
        return true;
    }
    if (!units_parse_f64(text, option, value, err)) return false;
    if (*value >= AXES[axis].low && *value <= AXES[axis].high) return true;
    return err_set(err, ERR_USAGE, "%s: must be between %g and %g, found %s", option,
                   AXES[axis].low, AXES[axis].high, text);
}

static bool add_value(enum sweep_axis axis, double value, struct sweep_list *list, struct err *err)
{
    if (list->count == SWEEP_LIST_MAX) {
        return err_set(err, ERR_USAGE, "%s: at most %d values are allowed", AXES[axis].option,
                       SWEEP_LIST_MAX);
    }
    list->values[list->count++] = value;
    return true;
}

// "8..1024" or "8..64:8"; `dots` points into `text` at "..".
static bool add_range(enum sweep_axis axis, char *text, char *dots, struct sweep_list *list,
                      struct err *err)
{
    char *colon = strchr(dots + 2, ':');
    double low = 0, high = 0, step = 0;
    *dots = '\0';
    if (colon) *colon = '\0';
    if (!read_number(axis, text, &low, err) || !read_number(axis, dots + 2, &high, err)) {
        return false;
    }
    if (colon && !read_number(axis, colon + 1, &step, err)) return false;
    if (low > high) {
        return err_set(err, ERR_USAGE, "%s: the range %s..%s is empty", AXES[axis].option, text,
                       dots + 2);
    }
    for (int i = 0;; i++) {
        // Each from the first, not from the one before: rounding does not add up.
        double value = colon ? low + i * step : ldexp(low, i);
        bool is_last = value > high || (!colon && value == high);
        if (is_last && colon) return true;
        if (!add_value(axis, is_last ? high : value, list, err)) return false;
        if (is_last) return true;
    }
}

static bool add_word(enum sweep_axis axis, char *word, struct sweep_list *list, struct err *err)
{
    double value = 0;
    if (AXES[axis].kind == NUMBER_PRECISION) {
        enum precision precision;
        if (!precision_from_name(word, &precision)) {
            return err_set(err, ERR_USAGE, "%s: \"%s\" is not one of fp32|fp16|bf16|fp8|fp4",
                           AXES[axis].option, word);
        }
        return add_value(axis, (double)precision, list, err);
    }
    char *dots = strstr(word, "..");
    if (dots) return add_range(axis, word, dots, list, err);
    return read_number(axis, word, &value, err) && add_value(axis, value, list, err);
}

bool sweep_parse(struct arena *arena, enum sweep_axis axis, const char *text,
                 struct sweep_list *list, struct err *err)
{
    char *words = arena_copy(arena, text);
    list->values = ARENA_NEW(arena, double, SWEEP_LIST_MAX);
    list->count = 0;
    for (char *word = words; word;) {
        char *comma = strchr(word, ',');
        if (comma) *comma = '\0';
        if (!add_word(axis, word, list, err)) return false;
        word = comma ? comma + 1 : NULL;
    }
    for (int i = 0; i < list->count; i++) {
        for (int k = 0; k < i; k++) {
            if (list->values[k] != list->values[i]) continue;
            return err_set(err, ERR_USAGE, "%s: %s is given twice", AXES[axis].option,
                           sweep_value_text(arena, axis, list->values[i]));
        }
    }
    return true;
}

struct cluster *sweep_cluster(struct arena *arena, const struct cluster *cluster, int64_t gpus,
                              struct err *err)
{
    assert(gpus > 0);
    struct cluster *copy = cluster_copy_nodes(arena, cluster);
    if (gpus > copy->rank_count && copy->node_group_count == 1) {
        int64_t per_node = copy->nodes[0].gpus;
        if (!cluster_set_nodes(copy, (gpus + per_node - 1) / per_node, err)) return NULL;
    }
    return cluster_take_gpus(copy, gpus, err) ? copy : NULL;
}

static double base_value(const struct sweep *sweep, const struct cluster *cluster,
                         enum sweep_axis axis)
{
    switch (axis) {
    case SWEEP_NODES:
        return cluster->node_count;
    case SWEEP_GPUS:
        return cluster->rank_count;
    case SWEEP_SEQ_LEN:
        return (double)sweep->workload.seq_len;
    case SWEEP_GLOBAL_BATCH:
        return (double)sweep->workload.global_batch;
    case SWEEP_PRECISION:
        return sweep->workload.precision;
    default:
        return 1;
    }
}

// All GPUs of the sweep have to be able to share it, so that the batch of a point does not hang on
// how many it has: a power of two.
static int64_t batch_of_tokens(int64_t tokens, const struct workload *workload)
{
    int64_t seq_len = workload->seq_len, most = batch_limit(workload->optimizer);
    assert(seq_len > 0);
    int64_t batch = 1;
    while (2 * batch * seq_len <= tokens && 2 * batch <= most) {
        batch *= 2;
    }
    return batch;
}

static bool is_like(const struct sweep *sweep, int one, int other)
{
    return strcmp(sweep->clusters[one]->name, sweep->clusters[other]->name) == 0;
}

static bool is_word_of(const struct sweep *sweep, int one, int other)
{
    return !sweep->words || !sweep->words[one] || !sweep->words[other] ||
           strcmp(sweep->words[one], sweep->words[other]) == 0;
}

const char *sweep_cluster_name(struct arena *arena, const struct sweep *sweep, int cluster)
{
    const char *name = sweep->clusters[cluster]->name;
    int like_count = 0, same_word_count = 0, place = 0;
    for (int i = 0; i < sweep->cluster_count; i++) {
        if (!is_like(sweep, i, cluster)) continue;
        like_count++;
        same_word_count += is_word_of(sweep, i, cluster);
        place += i <= cluster && is_word_of(sweep, i, cluster);
    }
    if (like_count == 1) return name;
    if (sweep->words && sweep->words[cluster]) name = sweep->words[cluster];
    return same_word_count == 1 ? name : arena_print(arena, "%s #%d", name, place);
}

// "dgx-h100, 64 GPUs, x0.5": what tells the scenario from its neighbours.
static const char *label(struct arena *arena, const struct sweep *sweep,
                         const struct sweep_point *point)
{
    int gpus = point->scenario.cluster->rank_count;
    const char *text = arena_print(arena, "%s, %d GPU%s", point->name, gpus, gpus == 1 ? "" : "s");
    for (int axis = SWEEP_SEQ_LEN; axis < SWEEP_AXIS_COUNT; axis++) {
        if (sweep->axes[axis].count < 2) continue;
        text = arena_print(arena, "%s, %s %s", text, AXES[axis].head,
                           sweep_value_text(arena, (enum sweep_axis)axis, point->at[axis]));
    }
    return text;
}

// `values` are of the axes that are swept.
static bool make_point(struct arena *arena, const struct sweep *sweep, int cluster_index,
                       const double *values, struct sweep_point *point, struct err *err)
{
    assert(cluster_index >= 0 && cluster_index < sweep->cluster_count);
    struct scenario *scenario = &point->scenario;
    const struct cluster *base = sweep->clusters[cluster_index];
    *point = (struct sweep_point){.cluster = cluster_index};
    point->name = sweep_cluster_name(arena, sweep, cluster_index);
    scenario->workload = sweep->workload;
    scenario->pins = sweep->pins;
    scenario->tokens = sweep->workload.tokens;
    struct sweep_draft draft = {arena, cluster_copy_nodes(arena, base), &scenario->workload};
    for (int axis = 0; axis < SWEEP_AXIS_COUNT; axis++) {
        point->at[axis] = base_value(sweep, base, (enum sweep_axis)axis);
        if (sweep->axes[axis].count == 0) continue;
        point->at[axis] = values[axis];
        // In the order of the table: factors scale the nodes and GPUs that were asked for before
        // them.
        if (!AXES[axis].apply(&draft, point->at[axis], err)) return false;
    }
    scenario->cluster = draft.cluster;
    point->at[SWEEP_NODES] = draft.cluster->node_count;
    point->at[SWEEP_GPUS] = draft.cluster->rank_count;
    int64_t *batch = &scenario->workload.global_batch;
    if (sweep->batch_tokens > 0) {
        *batch = batch_of_tokens(sweep->batch_tokens, &scenario->workload);
    }
    if (sweep->sequences_per_gpu > 0) {
        *batch = sweep->sequences_per_gpu * draft.cluster->rank_count;
    }
    point->at[SWEEP_GLOBAL_BATCH] = (double)*batch;
    scenario->label = label(arena, sweep, point);
    return true;
}

bool sweep_point_of_size(struct arena *arena, const struct sweep *sweep,
                         const struct sweep_point *like, double size, struct sweep_point *point,
                         struct err *err)
{
    double values[SWEEP_AXIS_COUNT];
    // What is not swept is not read from here.
    memcpy(values, like->at, sizeof values);
    values[sweep_size_axis(sweep)] = size;
    return make_point(arena, sweep, like->cluster, values, point, err);
}

enum sweep_axis sweep_size_axis(const struct sweep *sweep)
{
    return sweep->axes[SWEEP_NODES].count > 0 ? SWEEP_NODES : SWEEP_GPUS;
}

bool sweep_batch_is_past(const struct sweep *sweep, int64_t batch)
{
    int size_count = sweep->axes[sweep_size_axis(sweep)].count;
    bool is_chosen = size_count > 1 || (size_count == 0 && sweep->cluster_count > 1);
    return is_chosen && sweep->sequences_per_gpu > 0 &&
           batch > batch_limit(sweep->workload.optimizer);
}

// `index` counts through the product of the axes.
static void values_at(const struct sweep *sweep, int index, double *values)
{
    assert(index >= 0);
    for (int axis = SWEEP_AXIS_COUNT - 1; axis >= 0; axis--) {
        const struct sweep_list *list = &sweep->axes[axis];
        values[axis] = 0;
        if (list->count == 0) continue;
        values[axis] = list->values[index % list->count];
        index /= list->count;
    }
}

bool sweep_points(struct arena *arena, const struct sweep *sweep, struct sweep_points *points,
                  struct err *err)
{
    double product = sweep->cluster_count;
    for (int axis = 0; axis < SWEEP_AXIS_COUNT; axis++) {
        if (sweep->axes[axis].count > 0) product *= sweep->axes[axis].count;
    }
    if (product > SWEEP_SCENARIO_MAX) {
        return err_set(err, ERR_USAGE, "these lists make %.0f scenarios, at most %d are allowed",
                       product, SWEEP_SCENARIO_MAX);
    }
    points->count = (int)product;
    points->items = ARENA_NEW(arena, struct sweep_point, points->count);
    int each = sweep->cluster_count > 0 ? points->count / sweep->cluster_count : 0;
    for (int i = 0; i < points->count; i++) {
        double values[SWEEP_AXIS_COUNT];
        values_at(sweep, i % each, values);
        if (!make_point(arena, sweep, i / each, values, &points->items[i], err)) return false;
    }
    return true;
}
