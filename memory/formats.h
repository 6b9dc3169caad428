#pragma once
#include "memory/graph.h"
#include "memory/schedule.h"

// Files that people bring, and what they get back. Errors are one line with file, line and column.

// Packing problems as MiniMalloc writes them: a header with id (or buffer), lower, upper, size in
// any order, and optionally alignment and offset (given = pre-placed); half-open lifetimes; blank
// lines and CRLF are allowed. Refused: missing or unknown columns, no number, size below 1,
// lifetimes reversed, an id twice. At most PACKING_BUFFERS_MAX rows.
enum { PACKING_BUFFERS_MAX = 4000000 };
struct packing_file {
    struct pack_problem problem;
    const char **ids;    // as written
    const char **lines;  // rows as written, without line end
    const char *header;
    int offset_column;   // of the input; -1 = none
    bool has_alignment;  // a column gives it; otherwise every row has 1
};
MUST_CHECK bool packing_load(struct arena *arena, const char *path, struct packing_file *file,
                             struct err *err);
// The same CSV with a last column `offset` (or the column that was there, filled).
char *packing_text(struct arena *arena, const struct packing_file *file, const int64_t *offsets);

// The problem itself, buffers by number: id,lower,upper,size,alignment,offset; offset -1: not
// placed.
char *packing_problem_text(struct arena *arena, const struct pack_problem *problem);

// A graph as JSON (memory/graph.schema.json):
// {"version": 1, "name": "...",
//  "tensors": [{"name": "x", "bytes": 4096, "persistent": false, "kept": false,
//               "alias_of": "y" | "overwrites": "y"}, ...],
//  "operators": [{"name": "a", "inputs": ["x"], "outputs": ["y"], "after": ["b"],
//                 "workspace_bytes": 0, "seconds": 0, "update": false}, ...]}
// Or operators and edges as of github.com/msr-fiddle/dnn-partitioning ("nodes", "edges"): a node is
// an operator, all its edges out carry one tensor of the largest `size` among them; a node without
// edges in whose name or `size` says parameter stays persistent; seconds from fpgaLatency.
MUST_CHECK struct memory_graph *memory_graph_load(struct arena *arena, const char *path,
                                                  struct err *err);
// From a text; `path` names it in errors.
MUST_CHECK struct memory_graph *memory_graph_parse(struct arena *arena, const char *path,
                                                   const char *text, size_t bytes, struct err *err);
MUST_CHECK bool packing_parse(struct arena *arena, const char *path, const char *text, size_t bytes,
                              struct packing_file *file, struct err *err);
char *memory_graph_text(struct arena *arena, const struct memory_graph *graph);

// The result as JSON: {"version", "name", "method", "alignment", "live_bytes", "arena_bytes",
// "bound_bytes", "persistent_bytes", "order": [names], "tensors": [{"name", "offset", "bytes",
// "lower", "upper"}]}; or as CSV id,lower,upper,size,offset.
char *memory_result_json(struct arena *arena, const struct memory_graph *graph,
                         const struct memory_problem *problem, int64_t alignment,
                         const struct memory_schedule *schedule);
char *memory_result_csv(struct arena *arena, const struct memory_graph *graph,
                        const struct memory_problem *problem,
                        const struct memory_schedule *schedule);
