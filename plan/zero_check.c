#include "plan/zero_check.h"

#include "plan/layout/mesh.h"

#include <assert.h>

static const struct part {
    const char *option, *outer;
    enum stored stored;
    int least_zero;
} PARTS[] = {{"--zero-gradients", "optimizer states", STORED_GRADIENTS, 2},
             {"--zero-parameters", "gradients", STORED_WEIGHTS, 3}};

static bool check_part(const struct parallel *parallel, const struct part *part, int group,
                       struct err *err)
{
    assert(part->stored + 1 < STORED_COUNT && "parts of what is stored outside of them");
    int outer = mesh_shard_ranks(parallel, part->stored + 1), cp = parallel->degree[AXIS_CP];
    if (group == 0) return true;
    if (parallel->zero < part->least_zero)
        return err_set(err, ERR_USAGE, "%s %d: --zero %d shards none; --zero %d does", part->option,
                       group, parallel->zero, part->least_zero);
    if (group > 0 && group % cp == 0 && outer % group == 0) return true;
    return err_set(
        err, ERR_USAGE,
        "%s %d: expected a multiple of cp %d that divides the %d ranks that share out %s",
        part->option, group, cp, outer, part->outer);
}

bool zero_check_parts(const struct parallel *parallel, struct err *err)
{
    return check_part(parallel, &PARTS[0], parallel->zero_gradients, err) &&
           check_part(parallel, &PARTS[1], parallel->zero_parameters, err);
}
