#include "plan/tables/placement.h"

#include <string.h>

struct entry {
    const char *table, *tier;
    int64_t first_row, row_count, first_column, column_count, rank, cached_rows, host_rows;
};

#define MOST 1e15
static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct entry, table)},
    {JSON_I64(struct entry, first_row, 0, MOST)},
    {JSON_I64(struct entry, row_count, 1, MOST)},
    {JSON_I64(struct entry, first_column, 0, MOST)},
    {JSON_I64(struct entry, column_count, 1, MOST)},
    {JSON_I64(struct entry, rank, PIECE_EVERY_RANK, 1 << 24)},
    {JSON_TEXT(struct entry, tier)},
    {JSON_I64(struct entry, cached_rows, 0, MOST)},
    {JSON_I64(struct entry, host_rows, 0, MOST)},
    {0},
};

void placement_write(struct json_writer *writer, const struct table_placement *placement)
{
    json_open(writer, "placement", '[');
    for (int i = 0; i < placement->piece_count; i++) {
        const struct table_piece *piece = &placement->pieces[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "table", placement->model->tables[piece->table].name);
        json_put_i64(writer, "first_row", piece->first_row);
        json_put_i64(writer, "row_count", piece->row_count);
        json_put_i64(writer, "first_column", piece->first_column);
        json_put_i64(writer, "column_count", piece->column_count);
        json_put_i64(writer, "rank", piece->rank);
        json_put_text(writer, "tier", tier_name(piece->tier));
        json_put_i64(writer, "cached_rows", piece->cached_rows);
        json_put_i64(writer, "host_rows", piece->host_rows);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

// The index of a word, or `count` and an error at the member.
static int word_of(const struct json *object, const char *key, const char *word,
                   const char *(*name)(int index), int count, struct err *err)
{
    const char *known = "";
    struct arena arena = {0};
    int index = 0;
    while (index < count && strcmp(name(index), word) != 0) {
        known = arena_print(&arena, "%s%s%s", known, index ? ", " : "", name(index));
        index++;
    }
    struct json at = json_find(object, key);
    if (index == count) json_fail(&at, err, "unknown \"%s\"; known: %s", word, known);
    arena_free(&arena);
    return index;
}

static const char *tier_at(int index)
{
    return tier_name((enum tier)index);
}
static const char *optimizer_at(int index)
{
    return table_optimizer_name((enum table_optimizer)index);
}
static const char *policy_at(int index)
{
    return cache_policy_name((enum cache_policy)index);
}
static const char *precision_at(int index)
{
    return precision_name((enum precision)index);
}

static int table_of(const struct recommender *model, const char *name)
{
    for (int i = 0; i < model->table_count; i++) {
        if (strcmp(model->tables[i].name, name) == 0) return i;
    }
    return -1;
}

struct table_placement *placement_read(struct arena *arena, const struct json *list,
                                       const struct recommender *model, int rank_count,
                                       struct err *err)
{
    int count = json_count(list, err);
    if (err->kind) return NULL;
    struct table_placement *placement = ARENA_NEW(arena, struct table_placement, 1);
    *placement = (struct table_placement){model, rank_count,
                                          ARENA_NEW(arena, struct table_piece, count), count};
    for (int i = 0; i < count; i++) {
        struct json at = json_item(list, i);
        struct entry entry = {0};
        json_read(&at, FIELDS, &entry, err);
        if (err->kind) return NULL;
        int table = table_of(model, entry.table);
        if (table < 0) {
            struct json name = json_find(&at, "table");
            json_fail(&name, err, "%s has no table \"%s\"", model->name, entry.table);
            return NULL;
        }
        int tier = word_of(&at, "tier", entry.tier, tier_at, TIER_COUNT, err);
        placement->pieces[i] = (struct table_piece){.table = table,
                                                    .first_row = entry.first_row,
                                                    .row_count = entry.row_count,
                                                    .first_column = entry.first_column,
                                                    .column_count = entry.column_count,
                                                    .rank = (int)entry.rank,
                                                    .tier = (enum tier)tier,
                                                    .cached_rows = entry.cached_rows,
                                                    .host_rows = entry.host_rows};
    }
    return err->kind ? NULL : placement;
}

struct workload_entry {
    int64_t global_batch;
    const char *precision, *optimizer, *cache;
};
static const struct json_field WORKLOAD_FIELDS[] = {
    {JSON_I64(struct workload_entry, global_batch, 1, 1 << 30)},
    {JSON_TEXT(struct workload_entry, precision)},
    {JSON_TEXT(struct workload_entry, optimizer)},
    {JSON_TEXT(struct workload_entry, cache)},
    {0},
};

void table_workload_write(struct json_writer *writer, const char *key,
                          const struct table_workload *workload)
{
    json_open(writer, key, '{');
    json_put_i64(writer, "global_batch", workload->global_batch);
    json_put_text(writer, "precision", precision_name(workload->precision));
    json_put_text(writer, "optimizer", table_optimizer_name(workload->optimizer));
    json_put_text(writer, "cache", cache_policy_name(workload->cache));
    json_close(writer, '}');
}

bool table_workload_read(const struct json *object, struct table_workload *workload,
                         struct err *err)
{
    struct workload_entry entry = {0};
    json_read(object, WORKLOAD_FIELDS, &entry, err);
    if (err->kind) return false;
    int precision =
        word_of(object, "precision", entry.precision, precision_at, PRECISION_COUNT, err);
    int optimizer =
        word_of(object, "optimizer", entry.optimizer, optimizer_at, TABLE_OPTIMIZER_COUNT, err);
    int cache = word_of(object, "cache", entry.cache, policy_at, CACHE_POLICY_COUNT, err);
    if (err->kind) return false;
    *workload = (struct table_workload){entry.global_batch, (enum precision)precision,
                                        (enum table_optimizer)optimizer, (enum cache_policy)cache};
    return true;
}
