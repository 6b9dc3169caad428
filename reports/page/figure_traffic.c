#include "core/units.h"
#include "reports/page/figure.h"
#include "reports/table/plan_table.h"

#include <assert.h>
#include <math.h>

// Who sends to whom, as a square of GPUs, nodes or blocks of nodes.

// The GPU or node, of a block of nodes the first.
static const char *cell_name(struct arena *arena, const struct traffic *traffic, int cell)
{
    int each = traffic->nodes_per_cell > 1 ? traffic->nodes_per_cell : 1;
    return units_count(arena, cell * each);
}

// On one node all of it does.
static const char *inside_share_text(struct arena *arena, const struct traffic *traffic,
                                     int node_count)
{
    assert(traffic->total_bytes > 0 && traffic->inside_bytes <= traffic->total_bytes * (1 + 1e-9));
    if (node_count == 1) return "";
    return arena_print(arena, ", and %s of that stays inside nodes",
                       units_ratio(arena, traffic->inside_bytes / traffic->total_bytes));
}

// What a row and a column stand for, how many nodes that is, and the most bytes in a box.
struct grid {
    const char *what;
    double each, most_bytes;
};

static void add_boxes(struct chart *chart, const struct traffic *traffic, const char *const *names,
                      const struct grid *grid)
{
    struct chart_series *series = chart_add(chart, CHART_BOXES, CHART_FORWARD, NULL);
    int count = traffic->cell_count;
    for (int row = 0; row < count; row++) {
        for (int to = 0; to < count; to++) {
            double bytes = traffic->bytes[row * count + to];
            if (bytes <= 0) continue;
            struct chart_mark mark = {
                .x0 = (to - 0.46) * grid->each,
                .x1 = (to + 0.46) * grid->each,
                .y0 = row - 0.46,
                .y1 = row + 0.46,
                .title = arena_print(chart->arena, "%s %s to %s: %s", grid->what, names[row],
                                     names[to], units_bytes(chart->arena, bytes)),
                .size = figure_shade(bytes, grid->most_bytes),
            };
            chart_mark(chart, series, &mark);
        }
    }
}

// The chart but for its name, title and sentence.
static void draw(const struct traffic *traffic, const char *what, struct chart *chart)
{
    struct arena *arena = chart->arena;
    int count = traffic->cell_count;
    double most = 0;
    for (int i = 0; i < count * count; i++)
        most = fmax(most, traffic->bytes[i]);
    const char **names = ARENA_NEW(arena, const char *, count);
    for (int i = 0; i < count; i++)
        names[i] = cell_name(arena, traffic, i);
    // Across stand the numbers of nodes themselves.
    double each = traffic->nodes_per_cell > 1 ? traffic->nodes_per_cell : 1;
    chart->x = (struct chart_axis){.label = arena_print(arena, "to %s", what),
                                   .low = -0.5 * each,
                                   .high = (count - 0.5) * each,
                                   .format = units_count,
                                   .is_whole = true};
    assert(count > 0 && most > 0);
    figure_shades(chart, CHART_FORWARD, most, units_bytes);
    const char *from = arena_print(arena, "from %s", what);
    if (traffic->nodes_per_cell > 1) {
        from = arena_print(arena, "from nodes: %d to a row, named by the first",
                           traffic->nodes_per_cell);
    }
    chart->y = (struct chart_axis){
        .label = from, .scale = CHART_ROWS, .low = -0.5, .high = count - 0.5, .names = names};
    chart->height = count < 4 ? 60 * count : count <= 16 ? 22 * count : 14 * count;
    chart->width = 96 + chart->height * 5 / 4;
    add_boxes(chart, traffic, names, &(struct grid){what, each, most});
}

static const char *cell_words(const struct cluster *cluster, const struct traffic *traffic)
{
    if (traffic->nodes_per_cell == 0) return cluster_device_noun(cluster);
    return traffic->nodes_per_cell == 1 ? "node" : "nodes";
}

bool figure_traffic(const struct report_facts *facts, struct chart *chart)
{
    const struct traffic *traffic = &facts->traffic;
    const struct cluster *cluster = facts->report->request->cluster;
    struct arena *arena = chart->arena;
    if (traffic->total_bytes <= 0) return false;
    const char *what = cell_words(cluster, traffic);
    chart->name = "traffic";
    chart->title = arena_print(arena, "Bytes sent in one step, %s to %s", what, what);
    chart->how = arena_print(arena,
                             "Rows send to columns: the stronger the colour, the more%s. In all it "
                             "is %s%s.",
                             traffic->nodes_per_cell ? "; the diagonal is what stays inside" : "",
                             units_bytes(arena, traffic->total_bytes),
                             inside_share_text(arena, traffic, cluster->node_count));
    draw(traffic, what, chart);
    return true;
}

// What a run sent, beside what was predicted of the same pairs.
bool figure_measured_traffic(const struct report_facts *facts, struct chart *chart)
{
    const struct traffic *traffic = &facts->measured_traffic;
    const struct cluster *cluster = facts->report->request->cluster;
    struct arena *arena = chart->arena;
    if (traffic->total_bytes <= 0) return false;
    assert(traffic->cell_count == facts->traffic.cell_count);
    double off_bytes = 0;
    for (int i = 0; i < traffic->cell_count * traffic->cell_count; i++)
        off_bytes += fabs(traffic->bytes[i] - facts->traffic.bytes[i]);
    const char *beside =
        off_bytes <= 1e-3 * traffic->total_bytes
            ? "pair by pair what is predicted"
            : arena_print(arena, "where %s is predicted; pairs differ by %s in all",
                          units_bytes(arena, facts->traffic.total_bytes),
                          units_bytes(arena, off_bytes));
    const char *what = cell_words(cluster, traffic);
    chart->name = "measured-traffic";
    chart->title = arena_print(arena, "Bytes that the run sent in a step, %s to %s", what, what);
    chart->how = arena_print(arena,
                             "Counted where exchanges are called, as rings and messages pass them "
                             "on: rows send to columns, %s, %s.",
                             units_bytes(arena, traffic->total_bytes), beside);
    draw(traffic, what, chart);
    return true;
}
