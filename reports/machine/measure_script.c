#include "reports/machine/measure_script.h"
#include "cost_models/measured.h"
#include "planner/question.h"
#include "simulator/evaluate.h"

#include <assert.h>
#include <string.h>

static const char HEAD[] =
    "import datetime, json, os, statistics, time\n"
    "import torch, torch.distributed as dist\n"
    "import torch.nn.functional as F\n"
    "\n"
    "RANK, WORLD = int(os.environ.get('RANK', 0)), int(os.environ.get('WORLD_SIZE', 1))\n"
    "LOCAL = int(os.environ.get('LOCAL_RANK', 0))\n"
    "torch.cuda.set_device(LOCAL)\n"
    "TYPES = {'bf16': torch.bfloat16, 'fp16': torch.float16, 'fp32': torch.float32}\n"
    "\n"
    "def seconds(call, least_s=0.3):\n"
    "    for _ in range(5): call()\n"
    "    torch.cuda.synchronize(); start = time.perf_counter(); call()\n"
    "    torch.cuda.synchronize(); once = time.perf_counter() - start\n"
    "    count, times = max(1, int(least_s / max(once, 1e-6))), []\n"
    "    for _ in range(5):\n"
    "        torch.cuda.synchronize(); start = time.perf_counter()\n"
    "        for _ in range(count): call()\n"
    "        torch.cuda.synchronize(); times.append((time.perf_counter() - start) / count)\n"
    "    return statistics.median(times)\n"
    "\n"
    "def say(owner, key, value):\n"
    "    if RANK == 0: print(f'{owner} {key}: {value:.4g}', flush=True)\n"
    "\n"
    "rows = []\n";

static const char PRODUCTS[] =
    "\n"
    "def product(row):\n"
    "    kind, (b, m, n, k) = TYPES[row['precision']], (row[x] for x in ('batch', 'm', 'n', 'k'))\n"
    "    make = lambda *shape: torch.randn(b, *shape, device='cuda', dtype=kind)\n"
    "    if row['phase'] == 'forward': x, w = make(m, k), make(n, k).transpose(1, 2)\n"
    "    elif row['phase'] == 'backward': x, w = make(m, k), make(k, n)\n"
    "    else: x, w = make(k, m).transpose(1, 2), make(k, n)\n"
    "    return seconds(lambda: torch.matmul(x, w))\n"
    "\n"
    "for row in PRODUCTS:\n"
    "    if row['precision'] not in TYPES: continue  # 8 bits: time them with the software that "
    "trains\n"
    "    if RANK == 0: rows.append({**row, 's': float(f'{product(row):.5g}')})\n";

static const char ATTENTION[] =
    "\n"
    "def attention(row):\n"
    "    make = lambda heads, dim: torch.randn(row['batch'], heads, row['seq'], dim, "
    "device='cuda',\n"
    "                                          dtype=TYPES[row['precision']], requires_grad=True)\n"
    "    q, k = make(row['heads'], row['head_dim']), make(row['kv_heads'], row['head_dim'])\n"
    "    v = make(row['kv_heads'], row['value_dim'])\n"
    "    call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=row['causal'],\n"
    "                                                  enable_gqa=row['heads'] != "
    "row['kv_heads'])\n"
    "    if row['phase'] == 'forward': return seconds(call)\n"
    "    out = call(); grad = torch.randn_like(out)\n"
    "    return seconds(lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))\n"
    "\n"
    "for row in ATTENTION:\n"
    "    if row['precision'] in TYPES and RANK == 0:\n"
    "        rows.append({**row, 's': float(f'{attention(row):.5g}')})\n";

static const char MEMORY[] =
    "\n"
    "a = torch.empty(1 << 30, device='cuda', dtype=torch.bfloat16); b = torch.empty_like(a)\n"
    "say('device', 'efficiency.memory_ratio',\n"
    "    2 * a.numel() * 2 / seconds(lambda: b.copy_(a)) / MEMORY_BYTES_PER_S)\n"
    "del a, b\n";

static const char LAUNCHES[] = "\n"
                               "one = torch.zeros(1, device='cuda')\n"
                               "say('device', 'launch_latency_s', seconds(lambda: one.add_(1)))\n";

static const char LINKS[] =
    "\n"
    "def gather(group, size, links_bytes_per_s, what):\n"
    "    part = torch.empty((1 << 29) // size, device='cuda', dtype=torch.bfloat16)\n"
    "    whole = torch.empty(part.numel() * size, device='cuda', dtype=torch.bfloat16)\n"
    "    s = seconds(lambda: dist.all_gather_into_tensor(whole, part, group=group))\n"
    "    say(what, 'efficiency_ratio', (size - 1) * part.numel() * 2 / s / links_bytes_per_s)\n"
    "\n"
    "if WORLD > 1 and not dist.is_initialized(): dist.init_process_group('nccl')\n";

static const char NODE_LINKS[] =
    "\n"
    "if WORLD >= GPUS:\n"
    "    groups = [dist.new_group(list(range(i, i + GPUS))) for i in range(0, WORLD, GPUS)]\n"
    "    gather(groups[RANK // GPUS], GPUS, NODE_LINK_BYTES_PER_S, 'fabric inside a node:')\n"
    "elif RANK == 0: print('links inside a node: start it on all GPUs of one')\n";

static const char NETWORK[] = "\n"
                              "if WORLD >= 2 * GPUS:\n"
                              "    pairs = [dist.new_group([i, i + GPUS]) for i in range(GPUS)]\n"
                              "    if RANK < 2 * GPUS: gather(pairs[RANK % GPUS], 2, "
                              "NETWORK_BYTES_PER_S, 'fabric of the network:')\n"
                              "elif RANK == 0: print('network: start it on two nodes')\n";

static const char TAIL[] =
    "\n"
    "if rows and RANK == 0:\n"
    "    today = datetime.date.today().isoformat()\n"
    "    table = {'name': 'measured', 'device': DEVICE, 'date': today,\n"
    "             'software': f'PyTorch {torch.__version__}', 'rows': rows,\n"
    "             'provenance': [{'key': 'rows', 'kind': 'measured', 'source': f'measure.py, "
    "{today}'}]}\n"
    "    json.dump(table, open('measured-kernels.json', 'w'), indent=1)\n"
    "    print('wrote measured-kernels.json: meshwright plan ... --kernels "
    "./measured-kernels.json')\n"
    "if dist.is_initialized(): dist.destroy_process_group()\n";

// Shapes of one kind that the plan's blocks have, each once.
struct shapes {
    struct kernel *items;
    int count, capacity;
};

static void add_shape(struct arena *arena, struct shapes *shapes, const struct kernel *shape)
{
    for (int i = 0; i < shapes->count; i++)
        if (kernel_same_shape(&shapes->items[i], shape)) return;
    ARENA_GROW(arena, shapes->items, shapes->count, shapes->capacity);
    shapes->items[shapes->count++] = *shape;
}

static struct shapes shapes_of(struct arena *arena, const struct evaluation_request *request,
                               const struct program *program, enum kernel_kind kind)
{
    const struct compute_context context = {
        .device = request->cluster->nodes[0].device,
        .stack = request->stack,
        .precision = request->workload.precision,
    };
    struct shapes shapes = {0};
    for (int b = 0; b < program->block_count; b++) {
        for (int i = 0; i < program->blocks[b]->instr_count; i++) {
            struct kernel shape;
            const struct instr *instr = &program->blocks[b]->instrs[i];
            if (!measured_shape(&context, program->blocks[b], instr, &shape)) continue;
            if (shape.kind == kind) add_shape(arena, &shapes, &shape);
        }
    }
    return shapes;
}

static const char *python_bool(bool value)
{
    return value ? "True" : "False";
}

static const char *phase_word(enum kernel_phase phase)
{
    assert(phase < KERNEL_PHASE_COUNT);
    static const char *const WORDS[KERNEL_PHASE_COUNT] = {"forward", "backward", "weight"};
    return WORDS[phase];
}

static char *product_text(struct arena *arena, const struct kernel *row)
{
    return arena_print(arena,
                       "    {'kind': 'gemm', 'phase': '%s', 'precision': '%s', 'batch': %lld, "
                       "'m': %lld, 'n': %lld, 'k': %lld, 'accumulate_fp32': %s},\n",
                       phase_word(row->phase), precision_name(row->precision),
                       (long long)row->batch, (long long)row->m, (long long)row->n,
                       (long long)row->k, python_bool(row->accumulate_fp32));
}

static char *attention_row_text(struct arena *arena, const struct kernel *row)
{
    return arena_print(arena,
                       "    {'kind': 'attention', 'phase': '%s', 'precision': '%s', 'batch': %lld, "
                       "'heads': %lld, 'kv_heads': %lld, 'head_dim': %lld, 'value_dim': %lld, "
                       "'seq': %lld, 'causal': %s},\n",
                       phase_word(row->phase), precision_name(row->precision),
                       (long long)row->batch, (long long)row->heads, (long long)row->kv_heads,
                       (long long)row->head_dim, (long long)row->value_dim, (long long)row->seq,
                       python_bool(row->causal));
}

static char *list_text(struct arena *arena, const char *name, const struct shapes *shapes,
                       char *(*row_text)(struct arena *arena, const struct kernel *row))
{
    char *text = arena_print(arena, "\n%s = [\n", name);
    for (int i = 0; i < shapes->count; i++)
        text = arena_print(arena, "%s%s", text, row_text(arena, &shapes->items[i]));
    return arena_print(arena, "%s]\n", text);
}

static const char *part_text(struct arena *arena, const struct evaluation_request *request,
                             const struct program *program, enum measure_kind kind)
{
    assert(kind < MEASURE_KIND_COUNT);
    struct shapes shapes;
    switch (kind) {
    case MEASURE_PRODUCTS:
        shapes = shapes_of(arena, request, program, KERNEL_GEMM);
        return arena_print(arena, "%s%s", list_text(arena, "PRODUCTS", &shapes, product_text),
                           PRODUCTS);
    case MEASURE_ATTENTION:
        shapes = shapes_of(arena, request, program, KERNEL_ATTENTION);
        return arena_print(arena, "%s%s",
                           list_text(arena, "ATTENTION", &shapes, attention_row_text), ATTENTION);
    case MEASURE_MEMORY:
        return MEMORY;
    case MEASURE_LAUNCHES:
        return LAUNCHES;
    case MEASURE_NODE_LINKS:
        return arena_print(arena, "%s%s", LINKS, NODE_LINKS);
    case MEASURE_NETWORK:
        return arena_print(arena, "%s%s", LINKS, NETWORK);
    case MEASURE_EXPERTS:
    case MEASURE_OVERLAP:
    case MEASURE_KIND_COUNT:
        break;
    }
    return arena_print(arena,
                       "\n# %s: train some steps on one node with the software itself, the same "
                       "plan cut to it\n# (meshwright plan ... --nodes 1 -o node.json), keep its "
                       "log, and give both to\n# meshwright plan ... --anchor LOG --anchor-plan "
                       "node.json\n",
                       measure_row(kind)->name);
}

// What the measured rates are divided by: peaks of one GPU, one direction.
static char *facts_text(struct arena *arena, const struct cluster *cluster)
{
    const struct node_group *node = &cluster->nodes[0];
    assert(node->gpus > 0);
    double network = node->nics.count * node->nics.bandwidth_bytes_per_s / node->gpus;
    return arena_print(arena,
                       "\nDEVICE, GPUS = '%s', %d  # of a node\nMEMORY_BYTES_PER_S = %.4g\n"
                       "NODE_LINK_BYTES_PER_S = %.4g\nNETWORK_BYTES_PER_S = %.4g\n",
                       node->device->name, node->gpus, node->device->memory_bandwidth_bytes_per_s,
                       node->intra.bandwidth_bytes_per_s, network);
}

char *measure_script_text(struct arena *arena, const struct search_request *request,
                          const struct search_result *result, const struct measure_next *next,
                          struct err *err)
{
    assert(result->best_count > 0 && next->step_count >= 0);
    const struct evaluation_request question = search_question(request, &result->best[0].parallel);
    struct arena scratch = {0};
    struct evaluation evaluation = {0};
    bool done = evaluate(arena, &scratch, &question, &evaluation, err);
    arena_free(&scratch);
    if (!done) return NULL;
    char *text = arena_print(
        arena,
        "# Micro-benchmarks for %s on %d x %s, written by meshwright "
        "measure-next.\n# torchrun --nproc-per-node %d measure.py, on one "
        "node; for the network on two.\n%s%s",
        request->model->name, request->cluster->rank_count, request->cluster->nodes[0].device->name,
        request->cluster->nodes[0].gpus_per_host, HEAD, facts_text(arena, request->cluster));
    for (int i = 0; i < next->step_count; i++)
        text = arena_print(arena, "%s%s", text,
                           part_text(arena, &question, evaluation.program, next->steps[i].kind));
    return arena_print(arena, "%s%s", text, TAIL);
}
