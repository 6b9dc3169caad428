#pragma once
#include "core/err.h"

#include <stdint.h>

// Mixed integer linear programs, solved by GLPK. Minimises. A failure inside GLPK never ends the
// program: its error hook jumps back here, the environment is thrown away (glp_free_env) and the
// status says so. GLPK keeps its environment per thread. Messages go to the caller's log.

enum milp_kind { MILP_CONTINUOUS, MILP_INTEGER, MILP_BINARY };

struct milp;
struct milp *milp_new(struct arena *arena, const char *name);
// Columns and rows are numbered from 0. Bounds may be -INFINITY and INFINITY.
int milp_column(struct milp *milp, enum milp_kind kind, double low, double high, double cost);
int milp_row(struct milp *milp, double low, double high);
void milp_put(struct milp *milp, int row, int column, double value);  // one value a place
int milp_column_count(const struct milp *milp);
int milp_row_count(const struct milp *milp);

enum milp_status {
    MILP_OPTIMAL,
    MILP_FEASIBLE,    // the best found when time or nodes ran out
    MILP_INFEASIBLE,  // proven; also: nothing better than `cutoff`
    MILP_UNKNOWN,     // time or nodes ran out before anything was found
    MILP_FAILED,      // GLPK gave up; `message` says why
};

struct milp_options {
    double time_limit_s;  // 0 = none
    double gap_ratio;     // accept within this of the optimum
    double cutoff;        // only solutions below are wanted; 0 with has_cutoff false
    bool has_cutoff;
    const double *start;  // a feasible solution, [column]; NULL = none
    bool no_cuts, no_presolve;
    void (*log)(void *context, const char *line);
    void *log_context;
};

struct milp_result {
    enum milp_status status;
    double objective;      // of the best found
    double bound;          // no solution is lower; -INFINITY where unknown
    const double *values;  // [column]; integers exactly so
    const char *message;   // of a failure
};

// Lives in the arena of milp_new. GLPK's objects do not outlive the call.
struct milp_result milp_solve(struct milp *milp, const struct milp_options *options);
