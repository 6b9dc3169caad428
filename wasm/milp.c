#include "memory/milp.h"

#include <assert.h>
#include <stddef.h>

// memory/milp.c of a page, which has no GLPK. A search asks for an integer program only where what
// is moved off the devices is searched, which a page never asks for (reports/page/replan.h).

struct milp *milp_new(struct arena *arena, const char *name)
{
    (void)arena;
    (void)name;
    assert(0 && "a page solves no integer programs");
    return NULL;
}

int milp_column(struct milp *milp, enum milp_kind kind, double low, double high, double cost)
{
    (void)milp;
    (void)kind;
    (void)low;
    (void)high;
    (void)cost;
    return 0;
}

int milp_row(struct milp *milp, double low, double high)
{
    (void)milp;
    (void)low;
    (void)high;
    return 0;
}

void milp_put(struct milp *milp, int row, int column, double value)
{
    (void)milp;
    (void)row;
    (void)column;
    (void)value;
}

struct milp_result milp_solve(struct milp *milp, const struct milp_options *options)
{
    (void)milp;
    (void)options;
    return (struct milp_result){.status = MILP_FAILED};
}
