#pragma once
#include "core/err.h"

#include <stdint.h>

// Mixed integer linear programs, solved by GLPK. Minimises. A failure inside GLPK never ends the
// program: its error hook jumps back here, the environment is thrown away (glp_free_env) and the
// status says so. GLPK keeps its environment per thread; each call leaves the thread without one.
// Messages go to the caller's log, never to the terminal.
//
// GLPK works in doubles with tolerances of about 1e-7 of the values: bring coefficients into 0 ..
// 100 or so, and take "proven" as within 1e-6. No infeasible start, no NaN.

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
    MILP_FAILED,      // GLPK gave up, or the relaxation is unbounded; `message` says why
};

struct milp_options {
    double time_limit_s;  // 0 = none
    double gap_ratio;     // accept within this of the optimum
    int64_t node_cap;     // of the tree; 0 = none. Unlike time, the same on every machine
    double cutoff;        // only solutions below (by 1e-6 of it) are wanted
    bool has_cutoff;
    // A feasible solution, [column]; NULL = none. What is found is never worse. With presolve it
    // serves as a bound on the objective, without it as the first incumbent.
    const double *start;
    bool no_cuts, no_presolve;
    void (*log)(void *context, const char *line);
    void *log_context;
};

struct milp_result {
    enum milp_status status;
    double objective;      // of the best found
    double bound;          // no solution is lower; -INFINITY where unknown
    const double *values;  // [column]; integers exactly so; NULL where none was found
    const char *message;   // of a failure
};

// Lives in the arena of milp_new. GLPK's objects do not outlive the call.
struct milp_result milp_solve(struct milp *milp, const struct milp_options *options);
