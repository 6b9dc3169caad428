#pragma once
#include "core/err.h"
#include "plan/parallel.h"

// Whether ZeRO shards what has a shard group of its own, and whether that lies inside the group of
// what is stored in more parts. Of a zero_group that works.
bool zero_check_parts(const struct parallel *parallel, struct err *err);
