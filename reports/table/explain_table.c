#include "reports/table/explain_table.h"
#include "core/table.h"
#include "core/units.h"
#include "reports/table/ledger_text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Widest cells, chosen so that no table is wider than 100 columns.
enum { LINES = 20, RIVALS = 10 };

// What has flop or bytes to say how fast it was.
static bool is_work(const struct ledger_line *line)
{
    bool may_be = line->entry == ENTRY_OPERATOR || line->entry == ENTRY_UPDATE ||
                  line->entry == ENTRY_SQUARES || line->entry == ENTRY_RATIOS ||
                  line->entry == ENTRY_LOSS || line->entry == ENTRY_SEED;
    return may_be && (line->instr || line->bytes > 0);
}

static const char *bound_text(const struct ledger_line *line)
{
    static const char *const BOUNDS[BOUND_COUNT] = {"compute", "memory", "launch"};
    if (line->collective != COLLECTIVE_NONE)
        return line->cost.latency_s > line->cost.bandwidth_s ? "latency" : "bytes";
    if (line->entry == ENTRY_HOST || line->entry == ENTRY_TASK) return BOUNDS[BOUND_LAUNCH];
    if (line->measured) return "table";
    assert(line->bound < BOUND_COUNT);
    return is_work(line) ? BOUNDS[line->bound] : "-";
}

static const char *rate_text(struct arena *arena, const struct breakdown_line *line)
{
    if (!is_work(line->price) || line->s <= 0) return "-";
    const struct ledger_line *price = line->price;
    bool computes = price->measured ? line->flop > 0 : price->bound == BOUND_COMPUTE;
    return ledger_amount_text(arena, (computes ? line->flop : line->bytes) / line->s,
                              computes ? "F" : "B");
}

static void operator_row(struct table *table, const struct breakdown *breakdown,
                         const struct breakdown_line *line)
{
    struct arena *arena = table->arena;
    const struct ledger_line *price = line->price;
    const char *cells[] = {
        ledger_name_text(arena, price),
        ledger_phase_text(price),
        ledger_shape_text(arena, price),
        arena_print(arena, "%.0f", line->count),
        ledger_amount_text(arena, line->flop, ""),
        ledger_amount_text(arena, line->bytes, "B"),
        units_seconds(arena, line->s),
        units_percent(arena, line->s / breakdown->step_s),
        rate_text(arena, line),
        bound_text(price),
    };
    table_row(table, cells);
}

// "tp", "dp,cp", "all"; of an axis that is cut into finer ones the finer ones' names, unless all
// are in.
// Stages with unlike numbers of ranks have no axis for what passes between them.
static const char *axes_text(struct arena *arena, const struct mesh *mesh,
                             const struct ledger_line *price)
{
    const char *text = "";
    unsigned axes = price->axes;
    if (mesh->stage_ranks && price->entry == ENTRY_NORM) return "all";
    if (mesh->stage_ranks && axes == 0) return axis_name(AXIS_PP);
    if (mesh->axis_count > 1 && axes == (1u << mesh->axis_count) - 1) return "all";
    for (int i = mesh->axis_count - 1; i >= 0; i--) {
        if (!(axes >> i & 1)) continue;
        unsigned whole = mesh_axes_of(mesh, mesh->axes[i].parent);
        bool has_all = (axes & whole) == whole;
        // A whole axis is named once, at the first of its parts that comes here.
        bool is_named = has_all && (whole >> i) > 1;
        if (is_named) continue;
        const char *name = has_all ? axis_name(mesh->axes[i].parent) : mesh->axes[i].name;
        text = arena_print(arena, "%s%s%s", text, *text ? "," : "", name);
    }
    return text;
}

static const char *when_text(const struct ledger_line *line)
{
    static const char *const ONCE[ENTRY_COUNT] = {
        [ENTRY_REDUCE] = "grads", [ENTRY_GATHER] = "params", [ENTRY_SMALL] = "small",
        [ENTRY_HOP] = "hop",      [ENTRY_TIED] = "tied",     [ENTRY_NORM] = "norm",
        [ENTRY_TRUST] = "trust",  [ENTRY_SQUARES] = "norm",  [ENTRY_RATIOS] = "trust",
    };
    assert(line->entry < ENTRY_COUNT);
    return ONCE[line->entry] ? ONCE[line->entry] : ledger_phase_text(line);
}

static void copy_row(struct table *table, const struct breakdown_line *line)
{
    struct arena *arena = table->arena;
    const struct ledger_line *price = line->price;
    const char *cells[] = {
        arena_print(arena, "copy %s", price->what),
        ledger_phase_text(price),
        "1/1",
        arena_print(arena, "%.0f", line->count),
        ledger_amount_text(arena, price->bytes, "B"),
        "-",
        units_seconds(arena, line->alone_s),
        units_seconds(arena, line->s),
        "bytes",
    };
    table_row(table, cells);
}

static void collective_row(struct table *table, const struct breakdown *breakdown,
                           const struct breakdown_line *line)
{
    struct arena *arena = table->arena;
    const struct ledger_line *price = line->price;
    if (price->collective == COLLECTIVE_NONE) return copy_row(table, line);
    bool is_switched = price->cost.algorithm == ALGORITHM_IN_NETWORK;
    const char *algorithm = algorithm_name(price->cost.algorithm);
    const char *name = arena_print(arena, "%s %s", collective_name(price->collective),
                                   axes_text(arena, breakdown->mesh, price));
    const char *cells[] = {
        name,
        when_text(price),
        arena_print(arena, "%d/%d", price->rank_count, price->node_count),
        arena_print(arena, "%.0f", line->count),
        ledger_amount_text(arena, price->bytes, "B"),
        is_switched ? algorithm
                    : arena_print(arena, "%s %s", algorithm, protocol_name(price->cost.protocol)),
        units_seconds(arena, line->alone_s),
        units_seconds(arena, line->s),
        bound_text(price),
    };
    table_row(table, cells);
}

// The first lines of one kind, then how many more there are and their share.
static char *lines_text(struct arena *arena, const struct breakdown *breakdown, bool collectives)
{
    assert(breakdown->step_s > 0);
    static const char *const OPERATORS[] = {"operator", "pass", "shape", "count",  "FLOP",
                                            "bytes",    "time", "share", "rate/s", "bound"};
    static const char *const COLLECTIVES[] = {"collective", "pass",  "ranks",   "count", "each",
                                              "how",        "alone", "exposed", "bound"};
    struct table table = table_new(arena, collectives ? "llrrrlrrl" : "lllrrrrrrl");
    table_row(&table, collectives ? COLLECTIVES : OPERATORS);
    int more = 0, shown = 0;
    double more_s = 0;
    for (int i = 0; i < breakdown->count; i++) {
        const struct breakdown_line *line = &breakdown->lines[i];
        if (breakdown_is_communication(line) != collectives) continue;
        if (shown++ >= LINES) {
            more++;
            more_s += line->s;
        } else {
            (collectives ? collective_row : operator_row)(&table, breakdown, line);
        }
    }
    if (shown == 0) return arena_copy(arena, "");
    char *text = table_text(&table);
    if (more == 0) return text;
    return arena_print(arena, "%s... %d more lines, %s\n", text, more,
                       units_percent(arena, more_s / breakdown->step_s));
}

static void sum_row(struct table *table, const char *name, double s, double step_s)
{
    assert(step_s > 0);
    const char *cells[] = {name, units_seconds(table->arena, s),
                           units_percent(table->arena, s / step_s)};
    table_row(table, cells);
}

static char *sum_text(struct arena *arena, const struct breakdown *breakdown)
{
    struct table table = table_new(arena, "lrr");
    table.head_count = 0;
    sum_row(&table, "operators", breakdown->operators_s, breakdown->step_s);
    sum_row(&table, "exposed communication", breakdown->communication_s, breakdown->step_s);
    if (breakdown->stage_count > 1)
        sum_row(&table, "waiting for other stages", fmax(breakdown->waiting_s, 0),
                breakdown->step_s);
    sum_row(&table, "overhead", breakdown->overhead_s, breakdown->step_s);
    sum_row(&table, "step", breakdown->step_s, breakdown->step_s);
    return table_text(&table);
}

// "a100-sxm4-80g efficiency.memory_ratio"
static const char *constant_text(struct arena *arena, const struct constant *constant)
{
    return arena_print(arena, "%s %s", constant->owner_name, constant->key);
}

// Constants that no file gives have no source.
static const char *kind_text(const struct constant *constant)
{
    return constant->provenance ? provenance_kind_name(constant->provenance->kind) : "-";
}

static const char *change_text(struct arena *arena, double s)
{
    if (s == 0) return "-";
    return arena_print(arena, "%s%s", s < 0 ? "-" : "+", units_seconds(arena, fabs(s)));
}

static char *sensitivity_text(struct arena *arena, const struct sensitivity *sensitivity)
{
    static const char *const HEADER[] = {"constant", "value", "source", "elasticity", "+10 %"};
    struct table table = table_new(arena, "lrlrr");
    table_row(&table, HEADER);
    int shown = 0;
    for (; shown < sensitivity->count && shown < LINES; shown++) {
        const struct sensitivity_row *row = &sensitivity->rows[shown];
        const char *cells[] = {
            constant_text(arena, row->constant), arena_print(arena, "%.3g", *row->constant->value),
            kind_text(row->constant), arena_print(arena, "%+.3f", row->elasticity),
            change_text(arena, row->can_grow ? row->more_s : 0)};
        table_row(&table, cells);
    }
    char *text = table_text(&table);
    if (shown < sensitivity->count) {
        text = arena_print(arena, "%s... %d more above %.3f\n", text, sensitivity->count - shown,
                           SENSITIVITY_LEAST);
    }
    return arena_print(
        arena,
        "%s%d other constants below %.3f each, %.1g in sum\n"
        "Elasticity at +-1 %%, choices kept; +10 %%: the step priced again (-: at its "
        "limit already).\n",
        text, sensitivity->idle_count, SENSITIVITY_LEAST, sensitivity->idle_elasticity);
}

static char *rivals_text(struct arena *arena, const struct rivals *rivals)
{
    if (rivals->plan_count < 2) return arena_copy(arena, "");
    if (rivals->count == 0) {
        return arena_print(arena, "\nNo constant at +-10 %% puts another of the %d plans first.\n",
                           rivals->plan_count);
    }
    static const char *const HEADER[] = {"constant that changes the best plan", "source", "by",
                                         "first is", "ahead by"};
    struct table table = table_new(arena, "llrrr");
    table_row(&table, HEADER);
    for (int i = 0; i < rivals->count && i < RIVALS; i++) {
        const struct rivals_row *row = &rivals->rows[i];
        const char *cells[] = {constant_text(arena, row->constant), kind_text(row->constant),
                               row->ratio > 1 ? "+10 %" : "-10 %",
                               arena_print(arena, "#%d", row->first + 1),
                               arena_print(arena, "%.2f%%", 100 * row->lead_ratio)};
        table_row(&table, cells);
    }
    const char *more =
        rivals->count > RIVALS ? arena_print(arena, "... %d more\n", rivals->count - RIVALS) : "";
    return arena_print(arena, "\n%s%s", table_text(&table), more);
}

char *explain_text(struct arena *arena, const struct explain *explain)
{
    const struct breakdown *breakdown = &explain->breakdown;
    const char *of = breakdown->stage_count > 1
                         ? arena_print(arena, " of stage %d, the busiest of %d", breakdown->stage,
                                       breakdown->stage_count)
                         : "";
    const char *collectives = lines_text(arena, breakdown, true);
    return arena_print(arena, "\nA step on one rank%s:\n%s\n%s%s%s\n%s%s", of,
                       lines_text(arena, breakdown, false), collectives, *collectives ? "\n" : "",
                       sum_text(arena, breakdown), sensitivity_text(arena, &explain->sensitivity),
                       rivals_text(arena, &explain->rivals));
}

// What has no shape of its own, as a norm, is told by its bytes.
static void write_shape(struct json_writer *writer, const struct ledger_line *line)
{
    const struct instr *instr = line->instr;
    if (line->gemm.m > 0) {
        json_put_i64(writer, "batch", line->gemm.batch);
        json_put_i64(writer, "m", line->gemm.m);
        json_put_i64(writer, "n", line->gemm.n);
        json_put_i64(writer, "k", line->gemm.k);
        json_put_i64(writer, "joined", line->joined);
    } else if (*ledger_shape_text(writer->arena, line)) {
        json_put_i64(writer, "batch", instr->batch);
        json_put_i64(writer, "heads", instr->heads);
        json_put_i64(writer, "seq", instr->seq);
        json_put_i64(writer, "kv_seq", instr->kv_seq);
        json_put_i64(writer, "head_dim", instr->head_dim);
    }
}

static void write_operator(struct json_writer *writer, const struct breakdown_line *line)
{
    json_put_text(writer, "name", line->price->what);
    json_put_text(writer, "phase", ledger_phase_text(line->price));
    write_shape(writer, line->price);
    json_put_f64(writer, "count", line->count);
    json_put_f64(writer, "flop", line->flop);
    json_put_f64(writer, "bytes", line->bytes);
    json_put_f64(writer, "s", line->s);
    json_put_text(writer, "bound", bound_text(line->price));
}

static void write_copy(struct json_writer *writer, const struct breakdown_line *line)
{
    json_put_text(writer, "collective", "copy");
    json_put_text(writer, "payload", line->price->what);
    json_put_text(writer, "phase", ledger_phase_text(line->price));
    json_put_f64(writer, "count", line->count);
    json_put_f64(writer, "bytes_each", line->price->bytes);
    json_put_f64(writer, "alone_s", line->alone_s);
    json_put_f64(writer, "s", line->s);
    json_put_text(writer, "bound", "bytes");
}

static void write_collective(struct json_writer *writer, const struct mesh *mesh,
                             const struct breakdown_line *line)
{
    const struct ledger_line *price = line->price;
    if (price->collective == COLLECTIVE_NONE) return write_copy(writer, line);
    json_put_text(writer, "collective", collective_name(price->collective));
    json_put_text(writer, "payload", price->what);
    json_put_text(writer, "phase", ledger_phase_text(price));
    json_put_text(writer, "axes", axes_text(writer->arena, mesh, price));
    json_put_i64(writer, "ranks", price->rank_count);
    json_put_i64(writer, "nodes", price->node_count);
    json_put_f64(writer, "count", line->count);
    json_put_f64(writer, "bytes_each", price->bytes);
    json_put_text(writer, "algorithm", algorithm_name(price->cost.algorithm));
    json_put_text(writer, "protocol", protocol_name(price->cost.protocol));
    json_put_f64(writer, "alone_s", line->alone_s);
    json_put_f64(writer, "s", line->s);
    json_put_text(writer, "bound", bound_text(price));
}

static void write_lines(struct json_writer *writer, const struct breakdown *breakdown,
                        bool collectives)
{
    json_open(writer, collectives ? "collectives" : "operators", '[');
    for (int i = 0; i < breakdown->count; i++) {
        const struct breakdown_line *line = &breakdown->lines[i];
        if (breakdown_is_communication(line) != collectives) continue;
        json_open_flat(writer, NULL, '{');
        if (collectives) {
            write_collective(writer, breakdown->mesh, line);
        } else {
            write_operator(writer, line);
        }
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

static void write_constant(struct json_writer *writer, const struct constant *constant)
{
    json_put_text(writer, "owner", constant_owner_name(constant->owner));
    json_put_text(writer, "of", constant->owner_name);
    json_put_text(writer, "key", constant->key);
    json_put_f64(writer, "value", *constant->value);
    json_put_text(writer, "source", kind_text(constant));
}

static void write_constants(struct json_writer *writer, const struct sensitivity *sensitivity)
{
    json_open(writer, "constants", '[');
    for (int i = 0; i < sensitivity->count; i++) {
        const struct sensitivity_row *row = &sensitivity->rows[i];
        json_open_flat(writer, NULL, '{');
        write_constant(writer, row->constant);
        json_put_f64(writer, "elasticity", row->elasticity);
        json_put_f64(writer, "more_s", row->more_s);
        json_put_f64(writer, "less_s", row->less_s);
        json_close(writer, '}');
    }
    json_close(writer, ']');
    json_put_i64(writer, "idle_constants", sensitivity->idle_count);
    json_put_f64(writer, "idle_elasticity", sensitivity->idle_elasticity);
}

static void write_rivals(struct json_writer *writer, const struct rivals *rivals)
{
    if (rivals->plan_count == 0) return;
    json_open(writer, "rivals", '[');
    for (int i = 0; i < rivals->count; i++) {
        const struct rivals_row *row = &rivals->rows[i];
        json_open_flat(writer, NULL, '{');
        write_constant(writer, row->constant);
        json_put_f64(writer, "ratio", row->ratio);
        assert(row->first >= 0 && row->first < rivals->plan_count);
        json_put_i64(writer, "first", row->first);
        json_put_f64(writer, "lead_ratio", row->lead_ratio);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

void explain_write(struct json_writer *writer, const struct explain *explain)
{
    const struct breakdown *breakdown = &explain->breakdown;
    json_open(writer, "explain", '{');
    json_put_i64(writer, "stage", breakdown->stage);
    write_lines(writer, breakdown, false);
    write_lines(writer, breakdown, true);
    json_open(writer, "sum", '{');
    json_put_f64(writer, "operators_s", breakdown->operators_s);
    json_put_f64(writer, "communication_s", breakdown->communication_s);
    json_put_f64(writer, "waiting_s", breakdown->waiting_s);
    json_put_f64(writer, "overhead_s", breakdown->overhead_s);
    json_put_f64(writer, "step_s", breakdown->step_s);
    json_close(writer, '}');
    write_constants(writer, &explain->sensitivity);
    write_rivals(writer, &explain->rivals);
    json_close(writer, '}');
}
