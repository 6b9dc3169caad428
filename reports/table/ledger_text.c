#include "reports/table/ledger_text.h"

#include <assert.h>
#include <math.h>

const char *ledger_phase_text(const struct ledger_line *line)
{
    static const char *const PHASES[] = {"fwd", "bwd", "wgt"};
    if (line->block < 0 && line->entry != ENTRY_TASK && line->entry != ENTRY_COPY) return "step";
    assert(line->phase < sizeof PHASES / sizeof *PHASES);
    return line->recompute ? "recompute" : PHASES[line->phase];
}

const char *ledger_amount_text(struct arena *arena, double value, const char *unit)
{
    static const char *const PREFIXES[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0, last = sizeof PREFIXES / sizeof *PREFIXES - 1;
    if (value <= 0) return "-";
    for (; value >= 999.5 && i < last; i++)
        value /= 1000;
    int decimals = i == 0 && value == floor(value) ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return arena_print(arena, "%.*f %s%s", decimals, value, PREFIXES[i], unit);
}

const char *ledger_shape_text(struct arena *arena, const struct ledger_line *line)
{
    const struct instr *instr = line->instr;
    if (!instr) return "";
    if (line->gemm.m > 0) {
        const char *batch =
            line->gemm.batch == 1 ? "" : arena_print(arena, "%lldx", (long long)line->gemm.batch);
        return arena_print(arena, "%s%lldx%lldx%lld", batch, (long long)line->gemm.m,
                           (long long)line->gemm.n, (long long)line->gemm.k);
    }
    bool attends = instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD;
    if (!attends) return "";
    const char *keys =
        instr->kv_seq == instr->seq ? "" : arena_print(arena, "/%lld", (long long)instr->kv_seq);
    return arena_print(arena, "%lldx%lldx%lld%sx%lld", (long long)instr->batch,
                       (long long)instr->heads, (long long)instr->seq, keys,
                       (long long)instr->head_dim);
}

const char *ledger_name_text(struct arena *arena, const struct ledger_line *line)
{
    if (line->joined <= 1) return line->what;
    return arena_print(arena, "%s+%d", line->what, line->joined - 1);
}
