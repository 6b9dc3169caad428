#include "exchange/trace_kinds.h"
#include "core/names.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

// Parts of kernels' names in small letters, and what such a kernel does; the first that fits.
static const struct {
    const char *part, *kind;
} KERNELS[] = {
    {"allreduce", "all-reduce"},
    {"reducescatter", "reduce-scatter"},
    {"allgather", "all-gather"},
    {"alltoall", "all-to-all"},
    {"sendrecv", "send-receive"},
    {"broadcast", "broadcast"},
    {"nccl", "other collective"},
    {"flash", "attention"},
    {"fmha", "attention"},
    {"sdpa", "attention"},
    {"attention", "attention"},
    {"gemm", "matmul"},
    {"cutlass", "matmul"},
    {"nvjet", "matmul"},
    {"wgmma", "matmul"},
    {"cublas", "matmul"},
    {"s16816", "matmul"},
    {"layer_norm", "norm"},
    {"layernorm", "norm"},
    {"rmsnorm", "norm"},
    {"rms_norm", "norm"},
    {"ln_fwd", "norm"},
    {"ln_bwd", "norm"},
    {"cross_entropy", "loss"},
    {"nll_loss", "loss"},
    {"softmax", "loss"},
    {"multi_tensor_apply", "optimizer"},
    {"adam", "optimizer"},
    {"permute", "routing"},
    {"sort_chunks", "routing"},
    {"topk", "routing"},
    {"moe", "routing"},
    {"embedding", "embedding"},
    {"index", "embedding"},
    {"cuda graph", "CUDA graph"},
    {"memcpy", "copy"},
    {"memset", "copy"},
    {"silu", "element-wise"},
    {"swiglu", "element-wise"},
    {"gelu", "element-wise"},
    {"elementwise", "element-wise"},
    {"vectorized", "element-wise"},
    {"triton_poi", "element-wise"},
    {"cast", "element-wise"},
    {"transpose", "element-wise"},
    {"catarray", "element-wise"},
    {"reduce_kernel", "element-wise"},
    {"triton_red", "element-wise"},
    {"triton_per", "element-wise"},
};

const char *trace_kind_of(const struct trace_event *event)
{
    char name[128];
    size_t length = 0;
    for (const char *at = event->name; *at && length + 1 < sizeof name; at++)
        name[length++] = (char)tolower((unsigned char)*at);
    name[length] = '\0';
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (strstr(name, KERNELS[i].part)) return KERNELS[i].kind;
    return "other";
}

// As kernels are told by their names above, so that both sides have the same kinds.
static const char *op_kind_of(enum op_kind kind)
{
    switch (kind) {
    case OP_CONTRACT:
    case OP_PRODUCT:
        return "matmul";
    case OP_ATTENTION:
    case OP_ATTENTION_BACKWARD:
    case OP_CHOOSE:
    case OP_POOLED:
    case OP_POOLED_BACKWARD:
        return "attention";
    case OP_NORM:
    case OP_NORM_BACKWARD:
        return "norm";
    case OP_SOFTMAX:
    case OP_SOFTMAX_BACKWARD:
    case OP_LOSS:
    case OP_LOSS_BACKWARD:
    case OP_LINEAR_LOSS:
    case OP_LINEAR_LOSS_BACKWARD:
        return "loss";
    case OP_GATHER:
    case OP_GATHER_BACKWARD:
        return "embedding";
    case OP_ROUTE:
    case OP_ROUTE_BACKWARD:
    case OP_DISPATCH:
    case OP_DISPATCH_BACKWARD:
    case OP_COMBINE:
    case OP_COMBINE_BACKWARD:
        return "routing";
    default:
        return "element-wise";
    }
}

const char *line_kind_of(const struct breakdown_line *line)
{
    assert(line->price);
    const struct ledger_line *price = line->price;
    if (price->collective != COLLECTIVE_NONE) {
        const char *name = collective_name(price->collective);
        return strcmp(name, "send-recv") == 0 ? "send-receive" : name;
    }
    switch (price->entry) {
    case ENTRY_OPERATOR:
        return price->instr ? op_kind_of(price->instr->kind) : "element-wise";
    case ENTRY_BEGIN:
        return "element-wise";
    case ENTRY_UPDATE:
    case ENTRY_SQUARES:
    case ENTRY_RATIOS:
    case ENTRY_NORM:
        return "optimizer";
    case ENTRY_COPY:
    case ENTRY_LOSS:
    case ENTRY_SEED:
        return "copy";
    default:
        return "waiting for the host";
    }
}

bool trace_kind_is_communication(const char *kind)
{
    static const char *const KINDS[] = {"all-reduce",      "reduce-scatter", "all-gather",
                                        "all-to-all",      "send-receive",   "broadcast",
                                        "other collective"};
    return NAME_INDEX(KINDS, kind) >= 0;
}
