#pragma once
#include "planner/search.h"

// What is pinned of the meshes of stages: whether there can be any such plan. ERR_USAGE.
MUST_CHECK bool meshes_check_pinned(const struct search_request *request, struct err *err);

// Of at least one number.
int meshes_smallest(const int *numbers, int count);
int meshes_largest(const int *numbers, int count);

// Whether stages have numbers of ranks of their own, searched or pinned.
bool meshes_search_numbers(const struct pins *pins);
// The degrees of tp and dp and the micro-batch that follow from the ranks and the tp of stages
// which take so many sequences at a time. False: they do not divide.
MUST_CHECK bool meshes_put_degrees(struct parallel *parallel, int64_t sequences);
// Whether anything joins nodes of this kind, of which the cluster may have one alone.
bool meshes_have_network(const struct search_request *request);
// The option that asks for meshes: what is refused names it.
const char *meshes_option(const struct pins *pins);
