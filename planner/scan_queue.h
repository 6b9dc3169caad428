#pragma once

// How closely a group has been looked at. Each step costs more and gives a higher bound.
enum scan_level {
    LEVEL_FAMILY,  // bound from the graph alone
    LEVEL_GRAPH,   // the commonest layer of the largest micro-batch of the family is priced
    LEVEL_LAYERS,  // that of its own is, and of other layers those that were looked at
    LEVEL_PROBE,   // all that have much of the work are
    LEVEL_BLOCKS,  // all blocks are, with nothing recomputed or sharded
    LEVEL_ROOM,    // what has no room is recomputed, as large kernels are
    LEVEL_FITTED,  // as its own are
};

struct scan_entry {
    double bound_s;
    int group;  // index, which breaks ties
    enum scan_level level;
};

// Groups by their bounds, the lowest on top.
struct scan_queue {
    struct scan_entry *entries;
    int count;
};

// The caller gives the queue room for all its groups.
void scan_queue_push(struct scan_queue *queue, struct scan_entry entry);
struct scan_entry scan_queue_pop(struct scan_queue *queue);
