#pragma once
#include "core/json.h"
#include "memory/graph.h"

// Graphs as github.com/msr-fiddle/dnn-partitioning writes them; memory_graph_load reads them with
// this. `root` is an object with "nodes"; the graph has no name. NULL and a set `err` where it is
// wrong.
struct memory_graph *partition_graph_read(struct arena *arena, const struct json *root,
                                          struct err *err);
