#pragma once
#include <glpk.h>

// The simplex method of GLPK with an end. It may go round in a circle for good: each method gets 20
// steps for each row and column (of 736 relaxations of memory/keep/keep.h 732 ended within 6.3,
// the others not at all), and where the dual one does not end the primal one is asked. Returns what
// glp_simplex returns, GLP_EITLIM where neither ends. All else of `parameters` is the caller's.
int milp_simplex(glp_prob *prob, glp_smcp *parameters);
