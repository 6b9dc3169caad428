#include "tests/support/fake_checkpoint.h"
#include "tests/support/fake_disk.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The folder of checkpoints under faults: ranks write, commit and clear away, operations fail, all
// are killed at any operation and power goes, again and again, on a disk that tears and reorders
// what was not synced. Whatever then has the name of a checkpoint is whole, and one whose commit
// was done is there until later ones take its place. Everything hangs on a seed, which a failure
// prints: `build/tests/test_checkpoint_faults SEED` runs that one again, and FIRST COUNT so many.

enum { RANKS_MOST = 3, LIVES = 4, STEPS = 3, KEEP = 2 };

struct world {
    struct fake_disk *fake;
    struct disk disk;
    struct checkpoint_store store;
    uint64_t seed;
    int ranks;
    int64_t step;       // the last that was begun
    int64_t committed;  // the last whose commit was done; 0: none
};

// Ranks write in any order; the first commits when all have, and clears away.
static void save(struct world *world)
{
    struct err err = {0};
    bool all = true;
    world->step++;
    int first = (int)fake_disk_draw(world->fake, (uint64_t)world->ranks);
    for (int i = 0; i < world->ranks; i++)
        all = fake_checkpoint_write(&world->store, world->step, (first + i) % world->ranks,
                                    world->ranks, &err) &&
              all;
    if (all && fake_checkpoint_commit(&world->store, world->step, world->ranks, &err)) {
        world->committed = world->step;
        (void)!checkpoint_store_keep(&world->store, KEEP, &err);
        return;
    }
    for (int r = world->ranks - 1; r >= 0; r--)
        checkpoint_store_discard(&world->store, world->step, r);
}

// After a crash: the next run looks at what is there.
static const char *look(struct world *world, struct arena *arena)
{
    struct err err = {0};
    int64_t *steps;
    int count;
    if (!checkpoint_store_open(&world->store, &err) ||
        !checkpoint_store_steps(&world->store, arena, &steps, &count, &err))
        return arena_print(arena, "it does not open: %s", err.text);
    for (int i = 0; i < count; i++) {
        if (!fake_checkpoint_is_whole(&world->store, arena, steps[i], &err))
            return arena_print(arena, "step %lld is not whole: %s", (long long)steps[i], err.text);
    }
    if (world->committed && (count == 0 || steps[0] < world->committed))
        return arena_print(arena, "step %lld was committed and is gone",
                           (long long)world->committed);
    const char **names;
    int name_count = 0;
    world->disk.list(world->fake, arena, world->store.folder, &names, &name_count);
    if (name_count != count) return "something is left over";
    if (count > 0) world->committed = steps[0];
    if (count > 0 && steps[0] > world->step) return "a step from nowhere";
    return NULL;
}

// A few lives of a run, each ended by a crash; NULL, or what is wrong.
static const char *live(struct arena *arena, uint64_t seed)
{
    struct world world = {.fake = fake_disk_new(arena, seed), .seed = seed};
    world.disk = fake_disk_table(world.fake);
    world.store = (struct checkpoint_store){&world.disk, "ck"};
    world.ranks = 1 + (int)fake_disk_draw(world.fake, RANKS_MOST);
    for (int l = 0; l < LIVES; l++) {
        const char *wrong = look(&world, arena);
        if (wrong) return wrong;
        int now = fake_disk_operations(world.fake);
        if (fake_disk_draw(world.fake, 4))
            fake_disk_kill_at(world.fake, now + 1 + (int)fake_disk_draw(world.fake, 80));
        if (fake_disk_draw(world.fake, 2) == 0) fake_disk_fail_one_in(world.fake, 20);
        for (int s = 0; s < STEPS; s++)
            save(&world);
        fake_disk_crash(world.fake);
    }
    return look(&world, arena);
}

static int run_seeds(uint64_t first, uint64_t count)
{
    int wrong_count = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct arena arena = {0};
        const char *wrong = live(&arena, seed);
        if (wrong) {
            fprintf(stderr, "# seed %llu: %s\n", (unsigned long long)seed, wrong);
            wrong_count++;
        }
        arena_free(&arena);
    }
    return wrong_count;
}

static void whatever_lasts_is_whole(void **state)
{
    (void)state;
    assert_int_equal(run_seeds(1, 1000), 0);
}

// A disk that does not let the file be read whose name ends so, for this reason.
struct unread {
    struct disk disk;
    const char *name;
    int error;
};

static int map_not(void *context, const char *path, struct disk_map *map)
{
    const struct unread *unread = context;
    size_t length = strlen(path), end = strlen(unread->name);
    if (length >= end && strcmp(path + length - end, unread->name) == 0) return unread->error;
    return unread->disk.map(unread->disk.context, path, map);
}

static void unmap(void *context, struct disk_map *map)
{
    const struct unread *unread = context;
    unread->disk.unmap(unread->disk.context, map);
}

// What the checkpoint of step 1 is said to be on such a disk.
static enum err_kind said_of(struct arena *arena, const struct disk *sound, const char *name,
                             int error)
{
    struct err err = {0};
    struct checkpoint_index index;
    struct unread unread = {*sound, name, error};
    const struct disk disk = {.context = &unread, .map = map_not, .unmap = unmap};
    bool is_good = checkpoint_load(&disk, arena, "ck/step-00000001", &index, &err);
    for (int f = 0; is_good && f < index.file_count; f++)
        is_good = checkpoint_verify(&disk, "ck/step-00000001", &index, f, &err);
    assert_int_equal(is_good, err.kind == ERR_NONE);
    return err.kind;
}

// A file that is not there is a damaged checkpoint; one that cannot be read now says nothing of it.
static void what_cannot_be_read_is_not_damaged(void **state)
{
    static const int PASSING[] = {EIO, EACCES, EMFILE, ENOMEM, ESTALE};
    static const char *const NAMES[] = {"checkpoint.json", "rank-00001.safetensors"};
    (void)state;
    struct arena arena = {0};
    struct err err = {0};
    struct world world = {.fake = fake_disk_new(&arena, 1), .ranks = 2};
    world.disk = fake_disk_table(world.fake);
    world.store = (struct checkpoint_store){&world.disk, "ck"};
    assert_true(checkpoint_store_open(&world.store, &err));
    save(&world);
    assert_int_equal(world.committed, 1);
    for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; n++) {
        assert_int_equal(said_of(&arena, &world.disk, "none", EIO), ERR_NONE);
        assert_int_equal(said_of(&arena, &world.disk, NAMES[n], ENOENT), ERR_INPUT);
        for (size_t e = 0; e < sizeof PASSING / sizeof *PASSING; e++)
            assert_int_equal(said_of(&arena, &world.disk, NAMES[n], PASSING[e]), ERR_SYSTEM);
    }
    arena_free(&arena);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_lasts_is_whole),
        cmocka_unit_test(what_cannot_be_read_is_not_damaged),
    };
    if (argc < 2) return cmocka_run_group_tests(tests, NULL, NULL);
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    return run_seeds(strtoull(argv[1], NULL, 10), count) != 0;
}
