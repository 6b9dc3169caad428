#include "simulator/tied.h"

#include <math.h>

void tied_finish(const struct step_price *price, struct stage_finish *stages, double *norm_at_s,
                 double *period_s)
{
    for (int i = 0; i < price->tie_count; i++) {
        const struct tied_price *tied = &price->ties[i];
        double end_s = 0;
        for (int s = 0; s < tied->stage_count; s++)
            end_s = fmax(end_s, stages[tied->stages[s]].reduced_s);
        end_s += tied->s;
        for (int s = 0; s < tied->stage_count && tied->s > 0; s++) {
            struct stage_finish *stage = &stages[tied->stages[s]];
            stage->reduced_s = end_s;
            *norm_at_s = fmax(*norm_at_s, end_s);
            *period_s = fmax(*period_s, end_s + stage->rest_s);
        }
    }
}

double tied_sum_s(const struct step_price *price)
{
    double sum_s = 0;
    for (int i = 0; i < price->tie_count; i++)
        sum_s += price->ties[i].stage_count * price->ties[i].s;
    return sum_s;
}
