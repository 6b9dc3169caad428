#include "cli/memory_run.h"
#include "core/version.h"
#include "planner/plan_stays.h"
#include "reports/table/plan_json.h"
#include "reports/table/plan_table.h"

#include <math.h>
#include <string.h>

// What a plan keeps, recomputes and moves, chosen again: its file and its words.

// No search came before: the plans that were looked at are the rounds, and none that keeps less is
// faster than keeping everything.
char *memory_kept_document(struct arena *arena, const struct plan_kept *kept)
{
    double step_s = kept->evaluation->prediction.step_s;
    const struct search_result search = {
        .status = kept->kept_s < step_s ? SEARCH_FEASIBLE : SEARCH_OPTIMAL,
        .bound_s = kept->kept_s < step_s ? kept->kept_s : step_s,
        .considered_count = kept->round_count,
        .priced_count = kept->round_count,
    };
    const struct plan_document document = {
        .request = &kept->request,
        .evaluation = kept->evaluation,
        .search = &search,
        .version = MESHWRIGHT_VERSION,
    };
    return plan_document_text(arena, &document);
}

static const char *recomputed_text(struct arena *arena, const struct parallel *parallel)
{
    if (parallel->recompute == RECOMPUTE_NONE) return "recomputes nothing";
    const char *words = recompute_words(arena, parallel->recompute, parallel->recompute_classes);
    if (parallel->recompute_layers < 0) return arena_print(arena, "recomputes %s", words);
    return arena_print(arena, "recomputes %s of %d layers a stage", words,
                       parallel->recompute_layers);
}

const char *memory_kept_text(struct arena *arena, const struct plan *plan,
                             const struct plan_kept *kept)
{
    const struct parallel *chosen = &kept->request.parallel;
    double step_s = kept->evaluation->prediction.step_s, more_s = step_s - kept->kept_s;
    const char *moved =
        offload_is_none(&chosen->offload)
            ? "moves nothing"
            : arena_print(arena, "moves %s", offload_words(arena, &chosen->offload));
    return arena_print(
        arena,
        "Was    %s\nChosen %s\n"
        "       %s, %s: %s a step, %s %s than with everything kept (%s, %s reserved); %d %s\n",
        parallel_text(arena, &plan->parallel, kept->request.stack),
        parallel_text(arena, chosen, kept->request.stack), recomputed_text(arena, chosen), moved,
        units_seconds(arena, step_s), units_seconds(arena, fabs(more_s)),
        more_s < 0 ? "less" : "more", units_seconds(arena, kept->kept_s),
        units_bytes(arena, (double)kept->reserved_bytes), kept->round_count,
        kept->round_count == 1 ? "round" : "rounds");
}

bool memory_asks_moments(const struct memory_arguments *arguments)
{
    return arguments->offload && strcmp(arguments->offload, "moments") == 0;
}

const char *memory_stays_text(struct arena *arena, const struct plan *plan,
                              const struct plan_stays *stays)
{
    const struct plan_kept *kept = &stays->kept;
    double step_s = kept->evaluation->prediction.step_s;
    const char *least = stays->bound_bytes > 0 ? arena_print(arena, " (no placement less than %s)",
                                                             units_bytes(arena, stays->bound_bytes))
                                               : "";
    return arena_print(arena,
                       "Was    %s\nChosen %s\n"
                       "       %s of parameters%s a step, not %s%s: %s a step, not %s; %d %s\n",
                       parallel_text(arena, &plan->parallel, kept->request.stack),
                       parallel_text(arena, &kept->request.parallel, kept->request.stack),
                       arena_print(arena, "%s %s", stays->has_gradients ? "moves" : "fetches",
                                   units_bytes(arena, (double)stays->moved_bytes)),
                       stays->has_gradients ? ", and of gradients between micro-batches," : "",
                       units_bytes(arena, (double)stays->before_bytes), least,
                       units_seconds(arena, step_s), units_seconds(arena, stays->before_s),
                       kept->round_count, kept->round_count == 1 ? "round" : "rounds");
}
