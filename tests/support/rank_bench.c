#include "tests/support/rank_bench.h"

static const char *gather(struct group *group, const int64_t *mine, int64_t *all, int count)
{
    if (group->fault && group->turn == group->fault_turn) return group->fault;
    assert_in_range(group->turn, 0, BENCH_TURNS - 1);
    const int64_t *said = group->said[group->turn];
    assert_int_equal(count, group->counts[group->turn++]);
    for (int r = 0; r < group->rank_count; r++)
        memcpy(all + r * count, r == group->rank ? mine : said + r * count,
               (size_t)count * sizeof *all);
    return NULL;
}

// Of one task at a time, whichever bench it is of.
static struct arena scratch;

struct engine *rank_bench_open(struct arena *arena, struct rank_bench *bench, int rank,
                               int rank_count)
{
    *bench = (struct rank_bench){.transport.host_gather = gather,
                                 .world = {.rank = rank, .rank_count = rank_count}};
    struct engine *engine = &bench->engine;
    bench->options.corpus = &bench->corpus;
    bench->request.options = &bench->options;
    bench->request.communicator = (struct communicator *)(void *)&engine->rank;
    bench->program.mesh.rank_count = rank_count;
    bench->program.cluster = &bench->cluster;
    *engine = (struct engine){.request = &bench->request,
                              .backend = &bench->backend,
                              .transport = &bench->transport,
                              .script = &bench->script,
                              .program = &bench->program,
                              .arena = arena,
                              .scratch = &scratch,
                              .rank = rank,
                              .world = &bench->world,
                              .err = &bench->err};
    return engine;
}
