#include "planner/tables/cuts.h"

#include <assert.h>
#include <math.h>

// Narrower pieces read less than a sector of 64 bytes at a time.
enum { COLUMNS_LEAST = 16 };
// A table on every rank is one whose gradient nobody would mind to reduce whole.
static const double EVERYWHERE_BYTES = 64e6;

static const double CACHED_RATIOS[] = {0, 0.0001, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4};
static const double HOST_RATIOS[] = {0, 0.01, 0.1, 0.3, 0.6};

struct table_limits place_limits(const struct place_request *request)
{
    const struct table_request priced = place_priced(
        request, &(struct table_placement){.model = request->model,
                                           .rank_count = request->cluster->rank_count});
    const struct node_group *node = &request->cluster->nodes[0];
    int on_host = node->gpus_per_host < request->cluster->rank_count ? node->gpus_per_host
                                                                     : request->cluster->rank_count;
    double device =
        (double)cluster_device_bytes(request->cluster) - (double)table_beside_bytes(&priced);
    return (struct table_limits){
        .device = fmax(0, device),
        .host = request->uses_host ? (double)node->host.memory_bytes / on_host : 0,
        .nvme = request->uses_nvme ? (double)node->host.nvme_bytes / on_host : 0,
        .rank_count = request->cluster->rank_count,
        .node_ranks = (int)fmin(request->cluster->nodes[0].gpus, request->cluster->rank_count),
    };
}

struct table_piece cut_piece(const struct recommender *model, const struct table_cut *cut,
                             int table, int part)
{
    assert(part >= 0 && (cut->parts == 0 || part < cut->parts));
    int64_t rows = model->tables[table].row_count, width = recommender_row_width(model);
    struct table_piece piece = {
        .table = table, .row_count = rows, .column_count = width, .rank = PIECE_EVERY_RANK};
    piece.tier = cut->tier;
    if (cut->parts > 0) {
        int64_t size = cut->is_by_columns ? width : rows;
        int64_t first = size * part / cut->parts, end = size * (part + 1) / cut->parts;
        int64_t *from = cut->is_by_columns ? &piece.first_column : &piece.first_row;
        int64_t *count = cut->is_by_columns ? &piece.column_count : &piece.row_count;
        *from = first;
        *count = end - first;
        piece.rank = 0;
    }
    piece.cached_rows = (int64_t)((double)piece.row_count * cut->cached_ratio);
    piece.host_rows = (int64_t)((double)piece.row_count * cut->host_ratio);
    return piece;
}

static void weigh(const struct table_request *priced, const struct table_limits *limits,
                  struct table_cut *cut)
{
    const struct recommender *model = priced->placement->model;
    int ranks = limits->rank_count;
    bool is_every = cut->parts == 0;
    // Parts differ by a row or a column at most: the last one is the longest.
    struct table_piece piece = cut_piece(model, cut, cut->table, is_every ? 0 : cut->parts - 1);
    if (is_every) {
        cut->piece_s = table_everywhere_s(priced, cut->table);
    } else {
        const struct piece_seconds seconds = table_piece_s(priced, &piece, cut->parts);
        cut->piece_s = seconds.own_s;
        cut->node_s = seconds.node_s;
    }
    int holders = is_every ? ranks : cut->parts;
    // Parts that fill nodes lie side by side.
    cut->span = is_every ? 0 : cut->parts % limits->node_ranks == 0 ? cut->parts : 1;
    cut->total_s = holders * (cut->piece_s + cut->node_s * limits->node_ranks);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        cut->tier_bytes[tier] =
            (double)holders *
            (double)piece_bytes(&piece, priced->workload.optimizer, (enum tier)tier);
}

static bool is_possible(const struct table_cut *cut, const struct table_limits *limits)
{
    double holders = cut->parts > 0 ? cut->parts : limits->rank_count;
    return cut->tier_bytes[TIER_DEVICE] / holders <= limits->device &&
           cut->tier_bytes[TIER_HOST] / holders <= limits->host &&
           cut->tier_bytes[TIER_NVME] / holders <= limits->nvme;
}

static void offer(const struct table_request *priced, const struct table_limits *limits,
                  struct table_cut cut, struct table_cuts *cuts)
{
    weigh(priced, limits, &cut);
    if (is_possible(&cut, limits)) cuts->cuts[cuts->cut_count++] = cut;
}

// Off the device each number of cached rows is a way of its own.
static void offer_tiers(const struct table_request *priced, const struct table_limits *limits,
                        struct table_cut cut, struct table_cuts *cuts)
{
    enum { CACHED_COUNT = sizeof CACHED_RATIOS / sizeof *CACHED_RATIOS };
    enum { HOST_COUNT = sizeof HOST_RATIOS / sizeof *HOST_RATIOS };
    offer(priced, limits, cut, cuts);
    for (int c = 0; c < CACHED_COUNT; c++) {
        cut.cached_ratio = CACHED_RATIOS[c];
        cut.tier = TIER_HOST;
        cut.host_ratio = 0;
        if (limits->host > 0) offer(priced, limits, cut, cuts);
        cut.tier = TIER_NVME;
        for (int h = 0; h < HOST_COUNT && limits->nvme > 0; h++) {
            cut.host_ratio = HOST_RATIOS[h];
            if (cut.host_ratio >= cut.cached_ratio) offer(priced, limits, cut, cuts);
        }
    }
}

// 1, 2, 4 .. of a node, the node, 2, 4 .. nodes, all. Spans begin at multiples of themselves.
static int next_parts(const struct table_limits *limits, int parts)
{
    assert(parts >= 1 && parts <= limits->rank_count);
    int all = limits->rank_count, next = parts * 2;
    if (parts < limits->node_ranks) return next < limits->node_ranks ? next : limits->node_ranks;
    if (parts == all) return all + 1;
    return next < all && all % next == 0 ? next : all;
}

static void list_table(const struct table_request *priced, const struct table_limits *limits,
                       int table, bool has_tiers, struct table_cuts *cuts)
{
    const struct recommender *model = priced->placement->model;
    int64_t rows = model->tables[table].row_count, width = recommender_row_width(model);
    void (*put)(const struct table_request *, const struct table_limits *, struct table_cut,
                struct table_cuts *) = has_tiers ? offer_tiers : offer;
    struct table_cut cut = {.table = table};
    if ((double)(rows * width) * WEIGHT_BYTES <= EVERYWHERE_BYTES) offer(priced, limits, cut, cuts);
    for (cut.parts = 1; cut.parts <= limits->rank_count && cut.parts <= rows;
         cut.parts = next_parts(limits, cut.parts))
        put(priced, limits, cut, cuts);
    cut.is_by_columns = true;
    for (cut.parts = 2; cut.parts <= limits->rank_count && cut.parts <= COLUMN_PARTS_MAX &&
                        width / cut.parts >= COLUMNS_LEAST;
         cut.parts *= 2)
        put(priced, limits, cut, cuts);
}

static bool is_alike(const struct table_shape *a, const struct table_shape *b)
{
    return a->row_count == b->row_count && a->id_count == b->id_count;
}

void cuts_list(struct arena *arena, const struct place_request *request,
               const struct table_limits *limits, struct table_cuts *cuts)
{
    const struct recommender *model = request->model;
    const struct table_placement nothing = {.model = model, .rank_count = limits->rank_count};
    struct table_request priced = place_priced(request, &nothing);
    priced.laws = table_laws_make(arena, &priced);
    enum { WAYS_MAX = 40 * (1 + 8 * 6) };
    double total =
        (double)recommender_row_count(model) *
        (double)table_row_bytes(request->workload.optimizer, recommender_row_width(model));
    // Where all of it fits on devices with room to spare, nothing lives elsewhere.
    bool has_tiers = total > 0.9 * limits->device * limits->rank_count;
    cuts->groups = ARENA_NEW(arena, struct table_group, model->table_count);
    for (int table = 0; table < model->table_count; table++) {
        struct table_group *last = cuts->groups + cuts->group_count - 1;
        bool joins = cuts->group_count > 0 &&
                     is_alike(&model->tables[last->first], &model->tables[table]) &&
                     last->first + last->count == table;
        if (joins) {
            last->count++;
        } else {
            cuts->groups[cuts->group_count++] = (struct table_group){.first = table, .count = 1};
        }
    }
    cuts->cuts = ARENA_NEW(arena, struct table_cut, (size_t)cuts->group_count * WAYS_MAX);
    for (int g = 0; g < cuts->group_count; g++) {
        struct table_group *group = &cuts->groups[g];
        group->cut_first = cuts->cut_count;
        list_table(&priced, limits, group->first, has_tiers, cuts);
        group->cut_count = cuts->cut_count - group->cut_first;
        assert(group->cut_count <= WAYS_MAX);
    }
    cuts->chosen = ARENA_NEW(arena, int, cuts->cut_count);
}
