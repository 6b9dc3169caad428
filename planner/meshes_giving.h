#pragma once
#include "planner/meshes.h"
#include "planner/ranking.h"
#include "planner/uneven_split.h"

// A search of meshes of stages in its course: what the files of planner/meshes.h share.

struct giving {
    struct arena *arena;
    struct uneven_split split;
    const struct pins *asked;  // `split.request` has no pins of meshes
    struct ranking ranking;
    struct meshes_answer *answer;
    struct err refused;      // why the first plan with the pinned meshes cannot be
    bool has_size;           // some micro-batch can be split by all stages
    struct err indivisible;  // where none can, why the first that was looked at cannot
    bool may_branch;         // branches side by side are wanted, or may be better
};

// Whether pins allow the degrees and the micro-batch of a plan whose stages have other ones.
bool giving_is_asked(const struct giving *giving, const struct parallel *parallel);
// The plan as a chain of stages and with branches side by side, those of them that are asked for.
int giving_forms(const struct giving *giving, const struct parallel *plan,
                 struct parallel forms[2]);
// Plays a plan, and takes it in where it fits and is wanted.
void giving_offer(struct giving *giving, const struct parallel *parallel);
// Plans whose searched numbers came out the same for all stages become what they are, plans with
// one mesh, which the search of these may not have met.
void giving_make_plain(struct giving *giving);
// With the layers as they are, and as the stages are fast; branches with each number of stages in
// front of the first.
void giving_try_layers(struct giving *giving, const struct parallel *parallel);
// What is pinned is refused with the reason where no plan can have it.
void giving_find_reason(struct giving *giving, const struct parallel *parallel);
// The best plans with one mesh for all stages, as unlike as devices and replicas are: those that
// are found without the option.
MUST_CHECK bool giving_seek_alike(struct giving *giving, struct search_result *result,
                                  struct err *err);
// Of a search with one mesh for all stages, with branches as they are asked for.
struct pins giving_seed_pins(struct arena *arena, const struct pins *asked);

// Groups of ZeRO are of other numbers of ranks: only those that are pinned stay.
void giving_keep_groups(const struct giving *giving, struct parallel *parallel);

// Numbers of ranks that are pinned (planner/meshes_ranks.c), and those that are searched
// (planner/meshes_auto.c).
MUST_CHECK bool giving_seek_ranks(struct giving *giving, struct search_result *result,
                                  struct err *err);
MUST_CHECK bool giving_seek_divisions(struct giving *giving, struct search_result *result,
                                      struct err *err);
// What a pin of the numbers that were found would find: schedules and chunks of other seeds.
void giving_seek_found(struct giving *giving);
// One choice changed at a time, as long as that makes the plan better (planner/meshes_better.c).
void giving_better(struct giving *giving, struct candidate *best);
