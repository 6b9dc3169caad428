#include "core/file.h"
#include "core/units.h"
#include "topologies/cluster_assume.h"

#include <ctype.h>
#include <string.h>

static const struct json_field KIND_FIELDS[] = {
    {JSON_TEXT(struct fabric_kind, kind)},
    {JSON_F64(struct fabric_kind, link_bytes_per_s_least, 0, 1e15)},
    {JSON_F64(struct fabric_kind, latency_s, 1e-9, 1)},
    {JSON_F64(struct fabric_kind, reduce_efficiency_ratio, 0, 2)},
    {0},
};

struct fabric_kinds *fabric_kinds_load(struct arena *arena, struct err *err)
{
    const char *path = file_find_data(arena, "cost_models", "fabrics", "table of fabrics", err);
    struct json_document document;
    if (!path || !json_load(arena, path, &document, err)) return NULL;
    struct json root = json_root(&document), list = json_get(&root, "fabrics", err);
    struct fabric_kinds *kinds = ARENA_NEW(arena, struct fabric_kinds, 1);
    kinds->count = json_count(&list, err);
    kinds->rows = ARENA_NEW(arena, struct fabric_kind, kinds->count);
    for (int i = 0; i < kinds->count && !err->kind; i++) {
        struct json row = json_item(&list, i);
        json_read_lenient(&row, KIND_FIELDS, &kinds->rows[i], NULL, NULL, err);
    }
    return err->kind ? NULL : kinds;
}

const struct fabric_kind *fabric_kinds_find(const struct fabric_kinds *kinds, const char *kind,
                                            double link_bytes_per_s)
{
    const struct fabric_kind *best = NULL, *slowest = NULL;
    for (int i = 0; i < kinds->count; i++) {
        const struct fabric_kind *row = &kinds->rows[i];
        double least = row->link_bytes_per_s_least;
        if (strcmp(row->kind, kind) != 0) continue;
        if (!slowest || least < slowest->link_bytes_per_s_least) slowest = row;
        if (least > link_bytes_per_s) continue;
        if (!best || least > best->link_bytes_per_s_least) best = row;
    }
    return best ? best : slowest;
}

// What people call them beside their names.
static const char *nickname_of(const char *text)
{
    static const char *const NAMES[][2] = {
        {"ib", "infiniband"}, {"hdr", "infiniband"},       {"ndr", "infiniband"},
        {"nvl", "nvlink"},    {"infinity-fabric", "xgmi"}, {"opa", "omni-path"},
        {"tcp", "ethernet"},
    };
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        if (strcmp(NAMES[i][0], text) == 0) return NAMES[i][1];
    }
    return NULL;
}

void fabric_kinds_fail(struct arena *arena, const struct fabric_kinds *kinds, const struct json *at,
                       const char *kind, struct err *err)
{
    char *lower = arena_copy(arena, kind);
    for (char *c = lower; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    struct units_guess guess = {.text = lower};
    const char *list = "", *part = nickname_of(lower);
    for (int i = 0; i < kinds->count; i++) {
        const char *name = kinds->rows[i].kind;
        if (fabric_kinds_find(kinds, name, 0) != &kinds->rows[i]) continue;
        units_guess_offer(&guess, name);
        if (!part && strncmp(lower, name, strlen(name)) == 0) part = name;  // "nvlink4"
        list = arena_print(arena, "%s%s%s", list, *list ? ", " : "", name);
    }
    const char *best = guess.best ? guess.best : part;
    const char *mean = best ? arena_print(arena, ", did you mean \"%s\"", best) : "";
    json_fail(at, err, "no fabric is of kind \"%.60s\"%s? There are: %s", kind, mean, list);
}
