#include "exchange/launchers.h"

#include "reports/page/markup.h"

#include <assert.h>
#include <string.h>

static void put_head(struct markup *text, const struct launch *launch, const char *extra)
{
    assert(launch->nodes > 0 && launch->gpus_per_node > 0);
    markup_print(text, "#!/bin/bash\n%s", extra);
    markup_print(text, "# Starts %s %s on %lld nodes of %lld GPUs.\n", launch->program,
                 launch->version, (long long)launch->nodes, (long long)launch->gpus_per_node);
    markup_print(text, "set -euo pipefail\n");
}

static void put_sources(struct markup *text, const struct launch *launch)
{
    markup_print(text, "NNODES=%lld\nGPUS_PER_NODE=%lld\n", (long long)launch->nodes,
                 (long long)launch->gpus_per_node);
    markup_print(text, "source ./environment.sh\n");
    if (launch->sourced) markup_print(text, "source ./%s\n", launch->sourced);
}

// The command that stands on every node.
static void put_start(struct markup *text, const struct launch *launch)
{
    assert(launch->command);
    static const char TORCHRUN[] =
        "torchrun --nnodes \"$NNODES\" --nproc-per-node \"$GPUS_PER_NODE\"";
    if (launch->starter) {
        markup_print(text, "# %s starts its processes itself: no torchrun around it.\n",
                     launch->program);
        markup_print(text, "%s \\\n    %s\n", launch->starter, launch->command);
        return;
    }
    markup_print(text, "%s \\\n", TORCHRUN);
    markup_print(text, "    --node-rank \"${NODE_RANK:-0}\" \\\n");
    markup_print(text, "    --master-addr \"${MASTER_ADDR:-localhost}\" \\\n");
    markup_print(text, "    --master-port \"${MASTER_PORT:-29500}\" \\\n");
    markup_print(text, "    %s\n", launch->command);
}

static char *torchrun_text(struct arena *arena, const struct launch *launch)
{
    struct markup text = {.arena = arena};
    put_head(&text, launch, "");
    markup_print(&text, "# On every node: NODE_RANK=0.. MASTER_ADDR=first-node bash launch.sh\n");
    markup_print(&text, "cd \"$(dirname \"$0\")\"\n");
    put_sources(&text, launch);
    put_start(&text, launch);
    return text.text;
}

static char *slurm_text(struct arena *arena, const struct launch *launch)
{
    assert(launch->nodes > 0 && launch->gpus_per_node > 0);
    struct markup text = {.arena = arena};
    const char *asked = arena_print(arena,
                                    "#SBATCH --nodes=%lld\n#SBATCH --ntasks-per-node=1\n"
                                    "#SBATCH --gpus-per-node=%lld\n#SBATCH --exclusive\n",
                                    (long long)launch->nodes, (long long)launch->gpus_per_node);
    put_head(&text, launch, asked);
    markup_print(&text, "# From the folder of these files: sbatch launch.sbatch\n");
    markup_print(&text, "cd \"$SLURM_SUBMIT_DIR\"\n");
    // What stops reading early may end scontrol by a signal, and with it the script.
    markup_print(&text, "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | "
                        "sed -n 1p)\nexport MASTER_ADDR\n");
    // One task a node, which starts the processes of its GPUs.
    markup_print(&text, "srun --kill-on-bad-exit=1 bash -c '\n    set -euo pipefail\n"
                        "    export NODE_RANK=$SLURM_NODEID\n    exec bash ./launch.sh'\n");
    return text.text;
}

// An indexed job gives every pod its number, and a headless service the name of the first.
static char *kubernetes_text(struct arena *arena, const struct launch *launch)
{
    assert(launch->nodes > 0 && launch->gpus_per_node > 0);
    struct markup text = {.arena = arena};
    markup_print(&text, "# %s %s: a pod a node, the first of them the master. Before it:\n",
                 launch->program, launch->version);
    markup_print(&text,
                 "#   kubectl create configmap meshwright-files --from-file=.\n"
                 "# image: what has %s and its dependencies.\n",
                 launch->program);
    markup_print(&text, "apiVersion: v1\nkind: Service\nmetadata:\n  name: meshwright\nspec:\n"
                        "  clusterIP: None\n  selector:\n    job-name: meshwright\n---\n");
    markup_print(&text,
                 "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: meshwright\nspec:\n"
                 "  completionMode: Indexed\n  completions: %lld\n  parallelism: %lld\n"
                 "  backoffLimit: 0\n",
                 (long long)launch->nodes, (long long)launch->nodes);
    markup_print(&text, "  template:\n    spec:\n      subdomain: meshwright\n"
                        "      restartPolicy: Never\n      hostNetwork: false\n"
                        "      containers:\n      - name: train\n        image: IMAGE\n"
                        "        workingDir: /meshwright\n");
    markup_print(&text, "        command: [\"bash\", \"-c\", "
                        "\"NODE_RANK=$JOB_COMPLETION_INDEX exec bash ./launch.sh\"]\n");
    markup_print(&text, "        env:\n        - name: MASTER_ADDR\n"
                        "          value: meshwright-0.meshwright\n");
    markup_print(&text, "        resources:\n          limits:\n            nvidia.com/gpu: %lld\n",
                 (long long)launch->gpus_per_node);
    markup_print(&text, "        volumeMounts:\n        - {name: files, mountPath: /meshwright}\n"
                        "        - {name: shm, mountPath: /dev/shm}\n");
    markup_print(&text, "      volumes:\n      - name: files\n"
                        "        configMap: {name: meshwright-files}\n"
                        "      - name: shm\n        emptyDir: {medium: Memory}\n");
    return text.text;
}

// Of a program that starts the processes of a node itself: one of these a node.
static char *mpirun_nodes_text(struct arena *arena, const struct launch *launch)
{
    assert(launch->starter && launch->nodes > 0);
    struct markup text = {.arena = arena};
    put_head(&text, launch, "");
    markup_print(&text, "# A process a node, which starts those of its GPUs:\n"
                        "# HOSTS=a,b MASTER_ADDR=a bash launch-mpi.sh\n");
    markup_print(&text, "cd \"$(dirname \"$0\")\"\n"
                        "export MASTER_ADDR=\"${MASTER_ADDR:-localhost}\"\n"
                        "export MASTER_PORT=\"${MASTER_PORT:-29500}\"\n");
    markup_print(&text,
                 "exec mpirun -np %lld ${HOSTS:+-H \"$HOSTS\"} --map-by ppr:1:node \\\n"
                 "    -x MASTER_ADDR -x MASTER_PORT \\\n"
                 "    bash -c 'NODE_RANK=$OMPI_COMM_WORLD_RANK exec bash ./launch.sh'\n",
                 (long long)launch->nodes);
    return text.text;
}

static char *mpirun_text(struct arena *arena, const struct launch *launch)
{
    if (launch->starter) return mpirun_nodes_text(arena, launch);
    struct markup text = {.arena = arena};
    int64_t world = launch->nodes * launch->gpus_per_node;
    put_head(&text, launch, "");
    markup_print(&text, "# A process a GPU: HOSTS=a:8,b:8 MASTER_ADDR=a bash launch-mpi.sh\n");
    markup_print(&text, "cd \"$(dirname \"$0\")\"\n");
    markup_print(&text, "if [ \"${1:-}\" != rank ]; then\n");
    markup_print(&text, "    export MASTER_ADDR=\"${MASTER_ADDR:-localhost}\"\n"
                        "    export MASTER_PORT=\"${MASTER_PORT:-29500}\"\n");
    markup_print(&text,
                 "    exec mpirun -np %lld ${HOSTS:+-H \"$HOSTS\"} --map-by ppr:%lld:node \\\n"
                 "        -x MASTER_ADDR -x MASTER_PORT bash ./launch-mpi.sh rank\nfi\n",
                 (long long)world, (long long)launch->gpus_per_node);
    markup_print(&text, "export RANK=\"$OMPI_COMM_WORLD_RANK\"\n"
                        "export LOCAL_RANK=\"$OMPI_COMM_WORLD_LOCAL_RANK\"\n"
                        "export WORLD_SIZE=\"$OMPI_COMM_WORLD_SIZE\"\n");
    put_sources(&text, launch);
    markup_print(&text, "exec python %s\n", launch->command);
    return text.text;
}

const struct launcher LAUNCHERS[] = {
    {"torchrun", "launch.sh", torchrun_text},
    {"slurm", "launch.sbatch", slurm_text},
    {"kubernetes", "launch.yaml", kubernetes_text},
    {"mpirun", "launch-mpi.sh", mpirun_text},
    {0},
};

const struct launcher *launcher_find(const char *name)
{
    for (const struct launcher *at = LAUNCHERS; at->name; at++) {
        if (strcmp(at->name, name) == 0) return at;
    }
    return NULL;
}
