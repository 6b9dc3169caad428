#pragma once
#include "planner/search.h"

// What is pinned of the meshes of stages: whether there can be any such plan. ERR_USAGE.
MUST_CHECK bool meshes_check_pinned(const struct search_request *request, struct err *err);

// Of at least one number.
int meshes_smallest(const int *numbers, int count);
int meshes_largest(const int *numbers, int count);
