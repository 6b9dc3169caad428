#include "plan/readers.h"
#include "core/names.h"

#include <assert.h>

static const char *const NAMES[READERS_COUNT] = {"rank", "host", "one"};

enum readers readers_parse(const char *word)
{
    int at = NAME_INDEX(NAMES, word);
    assert(at >= 0);
    return (enum readers)at;
}

const char *readers_name(enum readers readers)
{
    assert((unsigned)readers < READERS_COUNT);
    return NAMES[readers];
}

struct host_ranks readers_host(const struct cluster *cluster, int rank_count, int rank)
{
    int first = 0;
    assert(rank >= 0 && rank < rank_count && rank_count <= cluster->rank_count);
    for (int i = 0; i < cluster->node_group_count; i++) {
        const struct node_group *group = &cluster->nodes[i];
        int end = first + group->count * group->gpus;
        if (rank < end) {
            int from = first + (rank - first) / group->gpus_per_host * group->gpus_per_host;
            int to = from + group->gpus_per_host;
            return (struct host_ranks){from, to < rank_count ? to : rank_count, group};
        }
        first = end;
    }
    assert(false && "a rank has a host");
    return (struct host_ranks){0};
}

bool readers_reads(const struct cluster *cluster, enum readers readers, int rank)
{
    if (readers == READERS_RANK) return true;
    if (readers == READERS_ONE) return rank == 0;
    return readers_host(cluster, cluster->rank_count, rank).first == rank;
}
