#pragma once
#include "core/arena.h"

#include <stdint.h>

// What starts a program on all GPUs: one row a launcher. A script stands in the folder of the files
// that it reads.

struct launch {
    const char *program, *version;  // for the comment on top
    const char *command;            // behind torchrun or python: the script and its arguments
    // Of a program that is its own launcher: its command on a node up to the script, from
    // $NNODES, $GPUS_PER_NODE, $NODE_RANK, $MASTER_ADDR and $MASTER_PORT; NULL: torchrun.
    const char *starter;
    const char *sourced;  // file of shell that sets ARGUMENTS; NULL: none
    int64_t nodes, gpus_per_node;
};

struct launcher {
    const char *name;  // "torchrun"
    const char *file;  // "launch.sh"
    char *(*text)(struct arena *arena, const struct launch *launch);
};

extern const struct launcher LAUNCHERS[];                // ends with a name of NULL
const struct launcher *launcher_find(const char *name);  // NULL: there is none
