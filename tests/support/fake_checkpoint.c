#include "tests/support/fake_checkpoint.h"

enum { ELEMENTS = 5 };

static double number_of(int64_t step, int rank, int element)
{
    return (double)(step * 1000 + rank * 10 + element);
}

static const void *give(void *context, int entry, struct err *err)
{
    (void)entry;
    (void)err;
    return context;
}

bool fake_checkpoint_write(const struct checkpoint_store *store, int64_t step, int rank,
                           int rank_count, struct err *err)
{
    double values[ELEMENTS];
    struct checkpoint_entry entry = {
        .piece = {.name = "weight.1",
                  .rank = 2,
                  .first = {rank},
                  .count = {1, ELEMENTS},
                  .whole = {rank_count, ELEMENTS},
                  .vocab_dim = -1,
                  .elements = ELEMENTS},
        .number = CHECKPOINT_F64,
    };
    for (int e = 0; e < ELEMENTS; e++)
        values[e] = number_of(step, rank, e);
    return checkpoint_store_write(store, step, rank, &entry, 1, give, values, err);
}

bool fake_checkpoint_commit(const struct checkpoint_store *store, int64_t step, int rank_count,
                            struct err *err)
{
    const struct checkpoint_facts facts = {.step = step,
                                           .loss_scale = 1,
                                           .model = "m",
                                           .family = "f",
                                           .optimizer = "none",
                                           .plan_hash = "h"};
    return checkpoint_store_commit(store, &facts, rank_count, err);
}

bool fake_checkpoint_is_whole(const struct checkpoint_store *store, struct arena *arena,
                              int64_t step, struct err *err)
{
    struct checkpoint_index index;
    const struct disk *disk = store->disk;
    const char *path = checkpoint_store_path(arena, store, step);
    if (!checkpoint_load(disk, arena, path, &index, err)) return false;
    if (index.facts.step != step || index.file_count != index.entry_count) return false;
    for (int f = 0; f < index.file_count; f++) {
        struct disk_map map;
        if (!checkpoint_verify(disk, path, &index, f, err)) return false;
        const char *file = arena_print(arena, "%s/%s", path, index.files[f].name);
        if (disk->map(disk->context, file, &map) != 0) return false;
        for (int e = 0; e < ELEMENTS; e++) {
            const char *bytes = map.bytes + index.files[f].header_bytes;
            if (checkpoint_number_get(CHECKPOINT_F64, bytes, e) != number_of(step, f, e))
                return false;
        }
    }
    return true;
}
