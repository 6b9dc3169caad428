#include "plan/video_check.h"

#include <assert.h>

bool video_check_seq_len(const struct graph *graph, const struct workload *workload,
                         struct err *err)
{
    int64_t tokens = graph->frames * graph->places;
    if (graph->frames == 0 || workload->seq_len == tokens) return true;
    return err_set(
        err, ERR_USAGE,
        "--seq-len %lld: a video of %s is %lld frames of %lld places, %lld tokens; leave "
        "it out, or give its config another input_size",
        (long long)workload->seq_len, graph->name, (long long)graph->frames,
        (long long)graph->places, (long long)tokens);
}

bool video_cp_divides(const struct graph *graph, enum cp_kind kind, int64_t cp)
{
    assert(cp >= 1);
    if (graph->frames == 0) return true;
    return graph->places % cp == 0 && (kind != CP_AXIAL || graph->frames % cp == 0);
}

// Weights that only conditions pass through (text, the step of the diffusion) have the same
// gradient on every rank of cp: what reduces gradients to shards over dp and cp would count it as
// often.
static bool shards_gradients(const struct graph *graph, const struct parallel *parallel)
{
    return graph->has_conditions && parallel->degree[AXIS_CP] > 1 && parallel->zero >= 1;
}

// Of proteins no other kind has a row of dims.
static bool lacks_turns(const struct graph *graph, const struct parallel *parallel)
{
    return graph->is_protein && parallel->degree[AXIS_CP] > 1 && parallel->cp_kind != CP_AXIAL;
}

// The joint sequence of text and places is whole on every rank of cp.
static bool splits_joint(const struct graph *graph, const struct parallel *parallel)
{
    return graph->joins_text && parallel->degree[AXIS_CP] > 1;
}

static bool has_one_dim(const struct graph *graph, const struct parallel *parallel)
{
    return graph->frames == 0 && parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_AXIAL;
}

// Of places cp owns the outer digits and tp, with sp, the inner ones: cp could not hand its own
// over to frames and leave those where they are.
static bool turns_outer_digits(const struct parallel *parallel)
{
    return parallel->degree[AXIS_CP] > 1 && parallel->cp_kind == CP_AXIAL && parallel->sp &&
           parallel->degree[AXIS_TP] > 1;
}

bool video_has_choices(const struct graph *graph, const struct parallel *parallel)
{
    return !shards_gradients(graph, parallel) && !has_one_dim(graph, parallel) &&
           !turns_outer_digits(parallel) && !lacks_turns(graph, parallel) &&
           !splits_joint(graph, parallel);
}

bool video_check_choices(const struct graph *graph, const struct parallel *parallel,
                         struct err *err)
{
    if (splits_joint(graph, parallel))
        return err_set(err, ERR_USAGE,
                       "--cp %d: text and places of %s are one sequence in its layers, which cp "
                       "does not split; only 1 works",
                       parallel->degree[AXIS_CP], graph->name);
    if (has_one_dim(graph, parallel))
        return err_set(err, ERR_USAGE,
                       "--cp-kind axial: %s has one sequence dim; axial parallelism splits two of "
                       "them in turn",
                       graph->name);
    if (lacks_turns(graph, parallel))
        return err_set(err, ERR_USAGE,
                       "--cp-kind %s: aligned sequences and residues are split in turn; only axial "
                       "works for %s",
                       cp_kind_name(parallel->cp_kind), graph->name);
    if (turns_outer_digits(parallel))
        return err_set(
            err, ERR_USAGE,
            "--sp on with --cp-kind axial: of places cp has the outer parts, which do not "
            "turn to frames by themselves; --sp off works");
    if (!shards_gradients(graph, parallel)) return true;
    return err_set(err, ERR_USAGE,
                   "--zero %d: of %s with --cp above 1 ranks of cp have the same gradient of what "
                   "conditions a video, which shards over them would count twice; only 0 works",
                   parallel->zero, graph->name);
}

bool video_refuse_cp(const struct graph *graph, const struct parallel *parallel,
                     const char *nearest, struct err *err)
{
    int cp = parallel->degree[AXIS_CP];
    bool is_axial = parallel->cp_kind == CP_AXIAL;
    return err_set(err, ERR_USAGE,
                   "--cp %d: %lld frames of %lld places cannot be split by %d%s; %s", cp,
                   (long long)graph->frames, (long long)graph->places, cp,
                   is_axial ? " in turn" : ", which only splits places", nearest);
}
