#include "simulator/ablation.h"

#include <assert.h>

// The order in which a compiler adds them: what computes less first, then what communicates less,
// then what hides the rest.
static const enum pass ORDER[PASS_COUNT] = {PASS_ATTENTION, PASS_FUSION,  PASS_EARLY_STOP,
                                            PASS_COMBINE,   PASS_STREAMS, PASS_LATENCY_HIDING,
                                            PASS_BUCKETS};

static struct fusion_counts count_fusion(const struct program *program)
{
    struct fusion_counts sum = {0};
    int chunk_count = program->shape.stage_count * program->shape.chunk_count;
    assert(chunk_count > 0);
    for (int i = 0; i < chunk_count; i++) {
        const struct program_chunk *chunk = &program->chunks[program->class_of[i]];
        for (int u = 0; u < chunk->use_count; u++) {
            const struct block_use *use = &chunk->uses[u];
            struct fusion_counts of = fusion_count(program->blocks[use->block_program]);
            sum.kernels_before += use->count * of.kernels_before;
            sum.kernels_after += use->count * of.kernels_after;
            sum.bytes_before += use->count * of.bytes_before;
            sum.bytes_after += use->count * of.bytes_after;
        }
    }
    assert(sum.kernels_after <= sum.kernels_before && "fusion makes no kernel more");
    return sum;
}

// `fusion` may be NULL.
static bool measure(struct arena *arena, struct arena *scratch,
                    const struct evaluation_request *request, struct ablation_row *row,
                    struct fusion_counts *fusion, struct err *err)
{
    struct evaluation_request changed = *request;
    struct evaluation evaluation = {0};
    struct arena_mark mark = arena_mark(arena);
    changed.parallel.passes = row->passes;
    changed.engine = (struct engine_options){0};
    changed.bands = NULL;
    bool done = evaluate(arena, scratch, &changed, &evaluation, err);
    assert(done == (err->kind == ERR_NONE) && "an answer or an error");
    if (done) {
        row->step_s = evaluation.prediction.step_s;
        assert(row->step_s > 0 && "a step takes time");
        row->reserved_bytes = evaluation.prediction.reserved_bytes;
        row->fits = row->reserved_bytes <= evaluation.prediction.device_bytes;
        if (fusion) *fusion = count_fusion(evaluation.program);
    }
    if (done) arena_reset(arena, mark);  // an error's text may live there
    return done;
}

bool ablate(struct arena *arena, struct arena *scratch, const struct evaluation_request *request,
            struct ablation *ablation, struct err *err)
{
    unsigned all = request->parallel.passes & PASS_ALL;
    struct ablation_row plan = {.passes = all};
    *ablation = (struct ablation){0};
    if (!measure(arena, scratch, request, &plan, &ablation->fusion, err)) return false;
    ablation->step_s = plan.step_s;
    ablation->reserved_bytes = plan.reserved_bytes;
    ablation->fits = plan.fits;

    struct ablation_row *none = &ablation->waterfall[ablation->waterfall_count++];
    if (!measure(arena, scratch, request, none, NULL, err)) return false;
    for (int i = 0; i < PASS_COUNT; i++) {
        enum pass pass = ORDER[i];
        if (!(all >> pass & 1)) continue;
        const struct ablation_row *before = &ablation->waterfall[ablation->waterfall_count - 1];
        struct ablation_row *without = &ablation->without[ablation->without_count++];
        struct ablation_row *added = &ablation->waterfall[ablation->waterfall_count++];
        *without = (struct ablation_row){.pass = pass, .passes = all & ~(1u << pass)};
        *added = (struct ablation_row){.pass = pass, .passes = before->passes | 1u << pass};
        if (!measure(arena, scratch, request, without, NULL, err) ||
            !measure(arena, scratch, request, added, NULL, err)) {
            return false;
        }
        without->gained_s = without->step_s - ablation->step_s;
        added->gained_s = before->step_s - added->step_s;
    }
    // The last row of the waterfall has all passes again: it is the plan.
    const struct ablation_row *last = &ablation->waterfall[ablation->waterfall_count - 1];
    assert(last->passes == all && ablation->waterfall_count == ablation->without_count + 1);
    assert(last->step_s == ablation->step_s && last->reserved_bytes == ablation->reserved_bytes);
    return true;
}
