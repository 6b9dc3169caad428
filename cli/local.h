#pragma once
#include "cost_models/collective.h"
#include "reports/machine/own_stack.h"
#include "topologies/kernels.h"

// CLUSTER `local`: this machine, its GPUs where the back end "cuda" finds any, else its CPU ranks.
// Measured on first use and kept in one file, $XDG_CACHE_HOME/meshwright/local-N.json for N ranks
// (else in ~/.cache), local-cuda-N.json of GPUs. The file says what was measured; on another
// processor, number of cores, memory, library or version of this program it
// is measured again, and so is one that cannot be read. Written atomically: two processes at once
// both measure, and the last one's file stays.

struct local_key {
    const char *processor, *libraries, *version;
    const char
        *build;  // of what was measured and what it was fitted with: back end, stack, fabrics
    int core_count, rank_count;
    int64_t memory_bytes;  // of the host, or of one GPU
    const char *backend;   // "cpu" or "cuda"; not in the file, whose name and build say it
};

struct local {
    struct cluster *cluster;
    const struct stack *stack;
    const struct kernel_table *kernels;  // for --kernels; NULL: the file has none
};

struct local_request {
    struct local_key key;
    const char *path;  // of the cache; NULL: there is none
    // Text of a file for this key. NULL and a set `err`.
    char *(*measure)(void *context, struct arena *arena, const struct local_key *key,
                     struct err *err);
    void *measure_context;
    void (*note)(void *context, const char *line);  // why it measures, what it could not keep
    void *note_context;
};

// The key of this machine by a back end: "cpu", "cuda" or "auto", cuda where it has a device. So
// many ranks, or 0: as many as cores or devices.
MUST_CHECK bool local_key_find(struct arena *arena, const char *backend, int rank_count,
                               struct local_key *key, struct err *err);
// Of the cache by the environment; NULL where it names no folder.
const char *local_path(struct arena *arena, const struct local_key *key);
char *local_text(struct arena *arena, const struct local_key *key, const struct local *local);
// False and a set `err` when the file is wrong; *is_stale when it is of another key.
MUST_CHECK bool local_read(struct arena *arena, const char *path, const struct local_key *key,
                           struct local *local, bool *is_stale, struct err *err);
// The same of a text that is no file yet; a stale one is an error.
MUST_CHECK bool local_parse(struct arena *arena, const char *text, const struct local_key *key,
                            struct local *local, struct err *err);
// From the cache, or measured and kept there. A cache that cannot be written is a note.
MUST_CHECK bool local_load(struct arena *arena, const struct local_request *request,
                           struct local *local, struct err *err);

// cli/calibrate_job.c: measures with `key->rank_count` processes of this program and returns the
// file's text, for struct local_request; `context` is a struct calibrate_arguments.
struct calibrate_arguments {
    int ranks;
    double seconds;  // 0: by the back end
    const char *backend, *folder, *into;
    const char *plan;  // whose GEMMs and attention are measured as well; NULL: none
    bool quiet, is_long, is_short;
    bool force;  // files of `folder` and `into` that are not ours are replaced
};
struct calibrate_arguments calibrate_arguments_default(void);
char *calibrate_job(void *context, struct arena *arena, const struct local_key *key,
                    struct err *err);
// CLUSTER of the command line: `local`, which brings the stack along that was measured with it
// (`stack` may be NULL), or any that cluster_load knows; ranks (0: not given) are for `local`
// alone. What the cluster's file does not say and was taken is noted on stderr.
MUST_CHECK struct cluster *local_or_load(struct arena *arena, const char *command, const char *name,
                                         int rank_count, const struct stack **stack,
                                         struct err *err);
// The line of that note, where there is something to note.
void local_note(const struct cluster *cluster);
