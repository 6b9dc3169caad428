#pragma once
#include "topologies/cluster.h"

// Who reads a run's token files. The others get their sequences by broadcast: from the reader of
// all down a binary tree of hosts, host 0 at its root, and on a host from its first rank. Hosts are
// those of the plan's cluster, not the machines that ranks happen to run on, so that what is priced
// is what runs.

enum readers {
    READERS_RANK,  // every rank for itself
    READERS_HOST,  // the first rank of each host, what its ranks look at
    READERS_ONE,   // rank 0, for all
    READERS_COUNT
};

// A row of a sequence holds so many ids behind it, which labels look at.
enum { READERS_IDS_AHEAD = 2 };

#define READERS_WORDS "rank|host|one"
// The place of a word in READERS_WORDS, which it must be.
enum readers readers_parse(const char *word);
const char *readers_name(enum readers readers);

// The ranks of a job of the first `rank_count` of the cluster that share a host: [first, end).
struct host_ranks {
    int first, end;
    const struct node_group *group;
};
struct host_ranks readers_host(const struct cluster *cluster, int rank_count, int rank);

// Whether the rank reads files.
bool readers_reads(const struct cluster *cluster, enum readers readers, int rank);
