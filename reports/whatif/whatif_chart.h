#pragma once
#include "reports/page/chart.h"
#include "reports/whatif/scaling.h"

// The plots of `whatif`. False where there is nothing to plot. The chart lives in its arena.

// Every scenario that fits by time and cost, the front as a line.
bool whatif_pareto_chart(const struct whatif *whatif, struct chart *chart);
// Speed of a GPU over their number: predicted, measured, and what no loss would be.
bool whatif_scaling_chart(const struct scaling *scaling, struct chart *chart);
