#include "memory/milp_simplex.h"

// For each row and column, and at least.
enum { STEPS_EACH = 20, STEPS_LEAST = 1000 };

int milp_simplex(glp_prob *prob, glp_smcp *parameters)
{
    parameters->it_lim =
        STEPS_EACH * (glp_get_num_rows(prob) + glp_get_num_cols(prob)) + STEPS_LEAST;
    parameters->meth = GLP_DUALP;
    glp_adv_basis(prob, 0);
    int code = glp_simplex(prob, parameters);
    if (code != GLP_EITLIM) return code;
    parameters->meth = GLP_PRIMAL;
    glp_std_basis(prob);
    return glp_simplex(prob, parameters);
}
