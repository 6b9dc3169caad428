#include "reports/table/memory_table.h"
#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// An empty graph needs nothing, and nothing is over it.
static double over(int64_t bytes, int64_t base_bytes)
{
    return base_bytes > 0 ? (double)bytes / (double)base_bytes - 1 : 0;
}

static const char *percent(struct arena *arena, double ratio)
{
    return arena_print(arena, "%.2f%%", 100 * ratio + 0.0);
}

// 1048576 as 1,048,576.
static const char *exact(struct arena *arena, int64_t number)
{
    char digits[32], *text = ARENA_NEW(arena, char, sizeof digits * 2), *at = text;
    int length = snprintf(digits, sizeof digits, "%lld", (long long)number);
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0 && digits[i - 1] != '-') *at++ = ',';
        *at++ = digits[i];
    }
    return text;
}

static const char *bytes_text(struct arena *arena, int64_t bytes)
{
    return units_bytes(arena, (double)bytes);
}

int64_t memory_report_bound(const struct memory_report *report)
{
    int64_t bound_bytes = 0;
    for (int i = 0; i < report->row_count; i++) {
        if (report->rows[i].bound_bytes > bound_bytes) bound_bytes = report->rows[i].bound_bytes;
    }
    return bound_bytes;
}

static const char *method_text(enum memory_method method)
{
    static const char *const TEXTS[] = {
        [MEMORY_PROGRAM] = "program, caching allocator",
        [MEMORY_GREEDY] = "greedy, best fit",
        [MEMORY_GLOBAL_ILP] = "global-ilp",
        [MEMORY_ROAM] = "roam",
    };
    assert(method < sizeof TEXTS / sizeof *TEXTS);
    return TEXTS[method];
}

static const char *table_of(struct arena *arena, const struct memory_report *report)
{
    struct table table = table_new(arena, "lrrrrrr");
    static const char *const HEADER[] = {"method",        "live",  "arena",  "over bound",
                                         "fragmentation", "saved", "seconds"};
    table_row(&table, HEADER);
    int64_t bound_bytes = memory_report_bound(report);
    for (int i = 0; i < report->row_count; i++) {
        const struct memory_schedule *row = &report->rows[i];
        double saved_ratio = -over(row->arena_bytes, report->rows->arena_bytes);
        const char *cells[] = {
            method_text(row->method),
            bytes_text(arena, row->live_bytes),
            bytes_text(arena, row->arena_bytes),
            percent(arena, over(row->arena_bytes, bound_bytes)),
            percent(arena, memory_fragmentation(row)),
            i == 0 ? "-" : percent(arena, saved_ratio),
            arena_print(arena, "%.3f", row->seconds),
        };
        table_row(&table, cells);
    }
    return table_text(&table);
}

static const char *head_text(struct arena *arena, const struct memory_report *report)
{
    const char *text = arena_print(arena, "%s: ", report->name);
    if (report->operator_count > 0) {
        text = arena_print(arena, "%s%s operators, ", text, exact(arena, report->operator_count));
    }
    text = arena_print(arena, "%s%s buffers", text, exact(arena, report->buffer_count));
    if (report->alignment > 1) {
        text = arena_print(arena, "%s, aligned to %lld", text, (long long)report->alignment);
    }
    int64_t persistent_bytes = report->rows->persistent_bytes;
    if (persistent_bytes > 0) {
        text = arena_print(arena, "%s; persistent, in an arena of their own: %s", text,
                           bytes_text(arena, persistent_bytes));
    }
    return arena_print(arena, "%s\n", text);
}

// "proven optimal" says that no order and no addresses need less.
static const char *proof_text(struct arena *arena, const struct memory_report *report)
{
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    int64_t bound_bytes = memory_report_bound(report);
    assert(answer->arena_bytes >= bound_bytes && "a bound is below what was found");
    const char *bound = arena_print(arena, "the bound of %s bytes", exact(arena, bound_bytes));
    if (answer->arena_bytes == bound_bytes) {
        return arena_print(arena, "%s: 0.00 %% over %s: proven optimal\n",
                           memory_method_name(answer->method), bound);
    }
    double gap_ratio = over(answer->arena_bytes, bound_bytes);
    return arena_print(arena, "%s: %s bytes, within %.2f %% of optimal (%s)\n",
                       memory_method_name(answer->method), exact(arena, answer->arena_bytes),
                       100 * gap_ratio, bound);
}

static const char *order_text(struct arena *arena, const struct memory_report *report)
{
    const struct order_result *order = &report->rows[report->row_count - 1].order_counts;
    if (order->segment_count == 0) return "";
    const char *text = arena_print(
        arena, "Order: %s segment%s, %s distinct, the largest of %s operators; %s executed sets",
        exact(arena, order->segment_count), order->segment_count == 1 ? "" : "s",
        exact(arena, order->distinct_count), exact(arena, order->largest_segment),
        exact(arena, order->state_count));
    if (order->certified_count > 0) {
        text = arena_print(arena, "%s; %s certified by GLPK", text,
                           exact(arena, order->certified_count));
    }
    if (order->capped_count > 0) {
        text = arena_print(arena, "%s; %s ended at a cap", text, exact(arena, order->capped_count));
    }
    return arena_print(arena, "%s\n", text);
}

static const char *addresses_text(struct arena *arena, const struct memory_report *report)
{
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    const struct pack_result *pack = &answer->pack_counts;
    if (!pack->offsets) return "";
    const char *text = arena_print(arena, "Addresses: %s", pack_mode_name(pack->mode));
    if (pack->node_count > 0) {
        text =
            arena_print(arena, "%s, %s nodes, %s restart%s", text, exact(arena, pack->node_count),
                        exact(arena, pack->restart_count), pack->restart_count == 1 ? "" : "s");
    }
    return arena_print(arena, "%s\n", text);
}

// What is run again and copied out, and what that adds.
static const char *spilled_text(struct arena *arena, const struct spill_result *spilled)
{
    if (!spilled) return "";
    if (spilled->repeated_count + spilled->moved_count == 0) return "Everything is kept\n";
    const char *text = arena_print(arena, "Kept whole, the arena needs %s.",
                                   bytes_text(arena, spilled->kept_bytes));
    if (spilled->repeated_count > 0)
        text = arena_print(
            arena, "%s Run again: %s operator%s, %s.", text, exact(arena, spilled->repeated_count),
            spilled->repeated_count == 1 ? "" : "s", units_seconds(arena, spilled->repeated_s));
    if (spilled->moved_count > 0)
        text = arena_print(arena, "%s Copied to the host: %s tensor%s, %s out and %s back.", text,
                           exact(arena, spilled->moved_count), spilled->moved_count == 1 ? "" : "s",
                           bytes_text(arena, spilled->out_bytes),
                           bytes_text(arena, spilled->in_bytes));
    text = arena_print(arena, "%s\nAdds %s where nothing overlaps", text,
                       units_seconds(arena, spilled->cost_s));
    if (spilled->bound_s > 0 && spilled->bound_s <= spilled->cost_s)
        text = arena_print(arena, "%s; at least %s with this order", text,
                           units_seconds(arena, spilled->bound_s));
    return arena_print(arena, "%s; %d round%s\n", text, spilled->round_count,
                       spilled->round_count == 1 ? "" : "s");
}

char *memory_table_text(struct arena *arena, const struct memory_report *report)
{
    assert(report->row_count > 0);
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    char *text =
        arena_print(arena, "%s%s%s%s%s%s", head_text(arena, report), table_of(arena, report),
                    proof_text(arena, report), order_text(arena, report),
                    addresses_text(arena, report), spilled_text(arena, report->spilled));
    if (report->capacity == 0 || !answer->fits) return text;
    int64_t left_bytes = report->capacity - answer->arena_bytes;
    return arena_print(arena, "%sFits the capacity of %s bytes, %s left\n", text,
                       exact(arena, report->capacity), exact(arena, left_bytes));
}

char *memory_shortfall_text(struct arena *arena, const struct memory_report *report)
{
    assert(report->row_count > 0 && report->capacity > 0);
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    int64_t bound_bytes = memory_report_bound(report);
    const char *proof = "whether less is possible is not known";
    if (report->spilled) {
        proof = "whether another choice needs less is not known";
    } else if (bound_bytes > report->capacity) {
        proof = arena_print(arena, "proven: nothing needs less than %s bytes",
                            exact(arena, bound_bytes));
    } else if (answer->infeasible) {
        proof = "proven: nothing fits";
    }
    return arena_print(arena, "the best found needs %s bytes, %s more than the capacity of %s; %s",
                       exact(arena, answer->arena_bytes),
                       exact(arena, answer->arena_bytes - report->capacity),
                       exact(arena, report->capacity), proof);
}

static void write_row(struct json_writer *writer, const struct memory_schedule *row,
                      int64_t bound_bytes, int64_t program_bytes)
{
    json_open(writer, NULL, '{');
    json_put_text(writer, "method", memory_method_name(row->method));
    json_put_i64(writer, "live_bytes", row->live_bytes);
    json_put_i64(writer, "arena_bytes", row->arena_bytes);
    json_put_f64(writer, "over_bound_ratio", over(row->arena_bytes, bound_bytes));
    json_put_f64(writer, "fragmentation_ratio", memory_fragmentation(row));
    json_put_f64(writer, "saved_ratio", -over(row->arena_bytes, program_bytes));
    json_put_bool(writer, "fits", row->fits);
    json_put_f64(writer, "seconds", row->seconds);
    json_close(writer, '}');
}

static void write_spilled(struct json_writer *writer, const struct spill_result *spilled)
{
    json_open(writer, "spilled", '{');
    json_put_i64(writer, "kept_arena_bytes", spilled->kept_bytes);
    json_put_i64(writer, "repeated_operators", spilled->repeated_count);
    json_put_f64(writer, "repeated_s", spilled->repeated_s);
    json_put_i64(writer, "moved_tensors", spilled->moved_count);
    json_put_i64(writer, "out_bytes", spilled->out_bytes);
    json_put_i64(writer, "in_bytes", spilled->in_bytes);
    json_put_f64(writer, "cost_s", spilled->cost_s);
    json_put_f64(writer, "bound_s", spilled->bound_s);
    json_put_i64(writer, "rounds", spilled->round_count);
    json_close(writer, '}');
}

void memory_report_write(struct json_writer *writer, const char *key,
                         const struct memory_report *report)
{
    assert(report->row_count > 0);
    const struct memory_schedule *answer = &report->rows[report->row_count - 1];
    int64_t bound_bytes = memory_report_bound(report);
    json_open(writer, key, '{');
    json_put_text(writer, "name", report->name);
    if (report->operator_count > 0) {
        json_put_i64(writer, "operator_count", report->operator_count);
    }
    json_put_i64(writer, "buffer_count", report->buffer_count);
    json_put_i64(writer, "alignment", report->alignment);
    if (report->capacity > 0) json_put_i64(writer, "capacity_bytes", report->capacity);
    json_put_i64(writer, "persistent_bytes", report->rows->persistent_bytes);
    json_put_i64(writer, "bound_bytes", bound_bytes);
    json_put_bool(writer, "proven_optimal", answer->arena_bytes == bound_bytes);
    // What is proven of a graph with its copies holds for that choice alone.
    bool is_proven = answer->infeasible || (report->capacity > 0 && bound_bytes > report->capacity);
    json_put_bool(writer, "infeasible", is_proven && !report->spilled);
    if (answer->order_counts.segment_count > 0) {
        json_put_i64(writer, "segment_count", answer->order_counts.segment_count);
        json_put_i64(writer, "distinct_count", answer->order_counts.distinct_count);
        json_put_i64(writer, "largest_segment", answer->order_counts.largest_segment);
        json_put_i64(writer, "certified_count", answer->order_counts.certified_count);
        json_put_i64(writer, "capped_count", answer->order_counts.capped_count);
    }
    json_open(writer, "methods", '[');
    for (int i = 0; i < report->row_count; i++) {
        write_row(writer, &report->rows[i], bound_bytes, report->rows->arena_bytes);
    }
    json_close(writer, ']');
    if (report->spilled) write_spilled(writer, report->spilled);
    json_close(writer, '}');
}
