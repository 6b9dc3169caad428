#include "planner/tables/place.h"

#include "core/units.h"
#include "plan/tables/unexecuted.h"
#include "planner/tables/assign.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct table_request place_priced(const struct place_request *request,
                                  const struct table_placement *placement)
{
    return (struct table_request){.cluster = request->cluster,
                                  .fabrics = request->fabrics,
                                  .stack = request->stack,
                                  .placement = placement,
                                  .workload = request->workload};
}

// Items of a table: a piece each; or one, whose pieces lie side by side; or none.
static void add_items(const struct place_request *request, const struct table_cut *cut, int first,
                      struct assign_request *assign, int *item_of)
{
    int parts = cut->parts > 0 ? cut->parts : 1;
    bool is_base = cut->span == 0 || cut->span == assign->limits->rank_count;
    struct table_piece piece = cut_piece(request->model, cut, cut->table, parts - 1);
    for (int part = 0; part < parts; part++)
        item_of[first + part] = is_base ? -1 : assign->item_count + (cut->span > 1 ? 0 : part);
    if (is_base) {
        double everywhere = cut->span == 0 ? 0 : cut->node_s * assign->limits->node_ranks;
        assign->base_s += cut->piece_s + everywhere;
        for (int tier = 0; tier < TIER_COUNT; tier++)
            assign->base_bytes[tier] +=
                (double)piece_bytes(&piece, request->workload.optimizer, (enum tier)tier);
        return;
    }
    for (int i = 0; i < (cut->span > 1 ? 1 : parts); i++) {
        struct assign_item *item = &assign->items[assign->item_count++];
        *item = (struct assign_item){.s = cut->piece_s,
                                     .node_s = cut->node_s *
                                               (cut->span > 1 ? assign->limits->node_ranks : 1),
                                     .span = cut->span};
        for (int tier = 0; tier < TIER_COUNT; tier++)
            item->bytes[tier] =
                (double)piece_bytes(&piece, request->workload.optimizer, (enum tier)tier);
    }
}

// A way for every table, and what follows: pieces, and items that want ranks.
struct table_draft {
    const struct place_request *request;
    const struct table_cuts *cuts;
    int *cut_of;  // [table]
    struct table_placement placement;
    struct assign_request assign;
    int *item_of;  // [piece]
};

static void lay_out(struct table_draft *draft)
{
    const struct recommender *model = draft->request->model;
    draft->placement.piece_count = draft->assign.item_count = 0;
    draft->assign.base_s = 0;
    for (int tier = 0; tier < TIER_COUNT; tier++)
        draft->assign.base_bytes[tier] = 0;
    for (int table = 0; table < model->table_count; table++) {
        const struct table_cut *cut = &draft->cuts->cuts[draft->cut_of[table]];
        int parts = cut->parts > 0 ? cut->parts : 1;
        add_items(draft->request, cut, draft->placement.piece_count, &draft->assign,
                  draft->item_of);
        for (int part = 0; part < parts; part++) {
            struct table_piece *piece = &draft->placement.pieces[draft->placement.piece_count++];
            *piece = cut_piece(model, cut, table, part);
            if (cut->span > 1) piece->rank = part;  // the place among those side by side
        }
    }
}

// Room for every table cut as finely as a cut may be.
static struct table_draft draft_start(struct arena *arena, const struct place_request *request,
                                      const struct table_limits *limits,
                                      const struct table_cuts *cuts)
{
    const struct recommender *model = request->model;
    int most = limits->rank_count > COLUMN_PARTS_MAX ? limits->rank_count : COLUMN_PARTS_MAX;
    int count = model->table_count * most;
    struct table_draft draft = {
        .request = request,
        .cuts = cuts,
        .cut_of = ARENA_NEW(arena, int, model->table_count),
        .placement = {model, limits->rank_count, ARENA_NEW(arena, struct table_piece, count), 0},
        .assign = {.items = ARENA_NEW(arena, struct assign_item, count),
                   .limits = limits,
                   .bound_s = cuts->bound_s},
        .item_of = ARENA_NEW(arena, int, count),
    };
    for (int g = 0; g < cuts->group_count; g++) {
        int table = cuts->groups[g].first;
        for (int c = 0; c < cuts->groups[g].cut_count; c++) {
            int cut = cuts->groups[g].cut_first + c;
            for (int k = 0; k < cuts->chosen[cut]; k++)
                draft.cut_of[table++] = cut;
        }
        assert(table == cuts->groups[g].first + cuts->groups[g].count);
    }
    return draft;
}

static bool lives_alike(const struct table_cut *a, const struct table_cut *b)
{
    return a->tier == b->tier && a->cached_ratio == b->cached_ratio &&
           a->host_ratio == b->host_ratio;
}

static double quick_s(struct arena *scratch, struct table_draft *draft)
{
    struct arena_mark mark = arena_mark(scratch);
    lay_out(draft);
    double s = assign_quickly(scratch, &draft->assign);
    arena_reset(scratch, mark);
    return s;
}

// Another way for one table, if the busiest rank gains by it.
static bool refine_table(struct arena *scratch, struct table_draft *draft,
                         const struct table_group *group, int table, double *best_s)
{
    const double gains = 1 - 1e-4;
    bool has_gained = false;
    for (int c = group->cut_first; c < group->cut_first + group->cut_count; c++) {
        int before = draft->cut_of[table];
        const struct table_cut *cut = &draft->cuts->cuts[c];
        if (cut->piece_s + cut->node_s >= *best_s) continue;  // a piece alone is no gain
        if (c == before || !lives_alike(&draft->cuts->cuts[c], &draft->cuts->cuts[before]))
            continue;
        draft->cut_of[table] = c;
        double s = quick_s(scratch, draft);
        if (s < *best_s * gains) {
            *best_s = s;
            has_gained = true;
        } else {
            draft->cut_of[table] = before;
        }
    }
    return has_gained;
}

// The program knows the mean rank and the longest piece, not what fits beside what: tables go
// another way, one at a time, as long as the busiest rank gains by it.
static void refine(struct arena *scratch, struct table_draft *draft)
{
    enum { ROUNDS_MAX = 3 };
    double best_s = quick_s(scratch, draft);
    bool has_gained = true;
    for (int round = 0; round < ROUNDS_MAX && has_gained; round++) {
        has_gained = false;
        for (int g = 0; g < draft->cuts->group_count; g++) {
            const struct table_group *group = &draft->cuts->groups[g];
            for (int table = group->first; table < group->first + group->count; table++)
                has_gained |= refine_table(scratch, draft, group, table, &best_s);
        }
    }
    lay_out(draft);
}

static const char *lacks_text(struct arena *arena, const struct place_request *request,
                              const struct table_limits *limits)
{
    double tables =
        (double)recommender_row_count(request->model) *
        (double)table_row_bytes(request->workload.optimizer, recommender_row_width(request->model));
    double ranks = limits->rank_count;
    return arena_print(
        arena, "%s of tables and their state; for them there are %s on devices%s%s%s%s",
        units_bytes(arena, tables), units_bytes(arena, limits->device * ranks),
        limits->host > 0 ? ", " : "",
        limits->host > 0
            ? arena_print(arena, "%s on hosts", units_bytes(arena, limits->host * ranks))
            : "",
        limits->nvme > 0 ? ", " : "",
        limits->nvme > 0
            ? arena_print(arena, "%s on NVMe", units_bytes(arena, limits->nvme * ranks))
            : "");
}

static bool check(const struct place_request *request, struct err *err)
{
    int64_t ranks = request->cluster->rank_count, batch = request->workload.global_batch;
    int64_t next = (batch / ranks + 1) * ranks;
    if (batch % ranks != 0)
        return err_set(err, ERR_USAGE,
                       "--global-batch: %lld ranks do not divide %lld samples; %lld would do",
                       (long long)ranks, (long long)batch, (long long)next);
    return cluster_check_precision(request->cluster, request->workload.precision, err) &&
           fabrics_cover(request->fabrics, request->cluster, err);
}

// Every table over all ranks, where that is a way: what fits in no other way fits in this.
static void spread_all(struct table_draft *draft)
{
    for (int g = 0; g < draft->cuts->group_count; g++) {
        const struct table_group *group = &draft->cuts->groups[g];
        for (int table = group->first; table < group->first + group->count; table++) {
            int kept = draft->cut_of[table];
            for (int c = group->cut_first; c < group->cut_first + group->cut_count; c++) {
                const struct table_cut *cut = &draft->cuts->cuts[c];
                bool is_spread = cut->parts == draft->placement.rank_count &&
                                 lives_alike(cut, &draft->cuts->cuts[kept]);
                if (is_spread) draft->cut_of[table] = c;
            }
        }
    }
}

static bool finish(struct arena *arena, const struct table_draft *draft,
                   const struct assign_result *assigned, struct place_result *result,
                   struct err *err)
{
    assert(assigned->fits);
    int count = draft->placement.piece_count;
    struct table_placement *placement = ARENA_NEW(arena, struct table_placement, 1);
    *placement = draft->placement;
    placement->pieces = ARENA_NEW(arena, struct table_piece, count);
    for (int i = 0; i < count; i++) {
        placement->pieces[i] = draft->placement.pieces[i];
        int item = draft->item_of[i];
        if (item >= 0) placement->pieces[i].rank += draft->assign.items[item].rank;
    }
    const struct table_request priced = place_priced(draft->request, placement);
    result->prediction = table_price(&priced);
    result->placement = placement;
    result->busiest_s = assigned->busiest_s;
    result->bound_s = draft->cuts->bound_s;
    result->gap_ratio = assigned->busiest_s / draft->cuts->bound_s - 1;
    result->is_program = assigned->is_program;
    if (!placement_check(placement, &draft->request->workload, err)) return false;
    bool is_own = strcmp(draft->request->stack->name, TABLE_OWN_STACK) == 0;
    const char *why = is_own ? table_unexecuted(placement, &draft->request->workload) : NULL;
    return !why || err_set(err, ERR_USAGE, "--stack %s: %s", TABLE_OWN_STACK, why);
}

bool place_tables(struct arena *arena, const struct place_request *request,
                  struct place_result *result, struct err *err)
{
    *result = (struct place_result){0};
    if (!check(request, err)) return false;
    struct arena scratch = {0};
    const struct table_limits limits = place_limits(request);
    struct table_cuts cuts = {0};
    cuts_list(&scratch, request, &limits, &cuts);
    result->option_count = cuts.cut_count;
    result->lacks = lacks_text(arena, request, &limits);
    bool done = cuts_choose(&scratch, &limits, &cuts, err);
    if (!done || !cuts.fits) return arena_free(&scratch), done;

    struct table_draft draft = draft_start(&scratch, request, &limits, &cuts);
    refine(&scratch, &draft);
    if (quick_s(&scratch, &draft) >= UNPLACED_S) {
        spread_all(&draft);
        refine(&scratch, &draft);
    }
    struct assign_result assigned;
    done = assign_items(&scratch, &draft.assign, &assigned, err);
    if (done && assigned.fits) done = finish(arena, &draft, &assigned, result, err);
    arena_free(&scratch);
    return done;
}
