#include "reports/table/ablation_table.h"
#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <math.h>

// Less than a twentieth of a percent is what rounding of tasks leaves.
static const char *gain_text(struct arena *arena, double gained_s, double step_s)
{
    assert(step_s > 0);
    if (fabs(gained_s) < 5e-4 * step_s) return "-";
    const char *sign = gained_s < 0 ? "-" : "";
    return arena_print(arena, "%s%s (%.1f%%)", sign, units_seconds(arena, fabs(gained_s)),
                       100 * gained_s / step_s);
}

static void add_row(struct table *table, const char *name, const struct ablation_row *row,
                    double step_s)
{
    struct arena *arena = table->arena;
    const char *cells[] = {
        name, units_seconds(arena, row->step_s), gain_text(arena, row->gained_s, step_s),
        arena_print(arena, "%s%s", units_bytes(arena, (double)row->reserved_bytes),
                    row->fits ? "" : ", does not fit")};
    table_row(table, cells);
}

static char *without_text(struct arena *arena, const struct ablation *ablation)
{
    struct table table = table_new(arena, "lrrr");
    static const char *const HEADER[] = {"one pass off", "step", "it gains", "reserved"};
    struct ablation_row plan = {.step_s = ablation->step_s,
                                .reserved_bytes = ablation->reserved_bytes,
                                .fits = ablation->fits};
    table_row(&table, HEADER);
    add_row(&table, "the plan", &plan, ablation->step_s);
    for (int i = 0; i < ablation->without_count; i++) {
        const struct ablation_row *row = &ablation->without[i];
        const char *name = arena_print(arena, "without %s", pass_name(row->pass));
        add_row(&table, name, row, row->step_s);
    }
    return table_text(&table);
}

static char *waterfall_text(struct arena *arena, const struct ablation *ablation)
{
    struct table table = table_new(arena, "lrrr");
    static const char *const HEADER[] = {"one pass more", "step", "it gains", "reserved"};
    table_row(&table, HEADER);
    for (int i = 0; i < ablation->waterfall_count; i++) {
        const struct ablation_row *row = &ablation->waterfall[i];
        const char *name = i ? arena_print(arena, "+ %s", pass_name(row->pass)) : "none";
        add_row(&table, name, row, row->step_s + row->gained_s);
    }
    return table_text(&table);
}

static const char *fusion_text(struct arena *arena, const struct fusion_counts *fusion)
{
    if (fusion->kernels_after >= fusion->kernels_before) return "";
    return arena_print(arena,
                       "Fusion: %.0f memory-bound kernels of a micro-batch become %.0f and move %s "
                       "instead of %s.\n",
                       fusion->kernels_before, fusion->kernels_after,
                       units_bytes(arena, fusion->bytes_after),
                       units_bytes(arena, fusion->bytes_before));
}

char *ablation_text(struct arena *arena, const struct ablation *ablation)
{
    assert(ablation->without_count >= 0 && ablation->waterfall_count >= 0);
    const char *without = without_text(arena, ablation);
    const char *waterfall = waterfall_text(arena, ablation);
    return arena_print(arena, "\n%s\n%s%s", without, waterfall,
                       fusion_text(arena, &ablation->fusion));
}

static void write_row(struct json_writer *writer, const struct ablation_row *row, bool is_without)
{
    json_open_flat(writer, NULL, '{');
    json_put_bool(writer, "without", is_without);
    json_put_text(writer, "pass", is_without || row->passes ? pass_name(row->pass) : "none");
    json_put_text(writer, "passes", pass_text(writer->arena, row->passes));
    json_put_f64(writer, "step_s", row->step_s);
    json_put_f64(writer, "gained_s", row->gained_s);
    json_put_i64(writer, "reserved_bytes", row->reserved_bytes);
    json_close(writer, '}');
}

void ablation_write(struct json_writer *writer, const struct ablation *ablation)
{
    json_open(writer, "ablation", '[');
    for (int i = 0; i < ablation->without_count; i++)
        write_row(writer, &ablation->without[i], true);
    for (int i = 0; i < ablation->waterfall_count; i++)
        write_row(writer, &ablation->waterfall[i], false);
    json_close(writer, ']');
    const struct fusion_counts *fusion = &ablation->fusion;
    json_open(writer, "fusion", '{');
    json_put_f64(writer, "kernels_before", fusion->kernels_before);
    json_put_f64(writer, "kernels_after", fusion->kernels_after);
    json_put_f64(writer, "bytes_before", fusion->bytes_before);
    json_put_f64(writer, "bytes_after", fusion->bytes_after);
    json_close(writer, '}');
}
