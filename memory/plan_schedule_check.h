#pragma once
#include "memory/plan_schedule.h"

// Whether a schedule that was read is one of this stage; else the place in its `object` and what is
// wrong. Order and offsets have the right number of items, the order has operators. Included by
// memory/plan_schedule*.c alone.
MUST_CHECK bool stage_schedule_check(struct arena *arena, const struct json *object,
                                     const struct plan_stage *group, int64_t alignment,
                                     const struct stage_schedule *stage, struct err *err);
