#pragma once
#include "tests/support/draw.h"
#include "topologies/network.h"

// Gives one network of three switches in tiers: a fat tree or a dragonfly, with flows that are
// hashed or not, and sometimes lost packets. Draws nothing of `draw`, which it follows.
void random_tiers(const struct draw *draw, struct network *network);
