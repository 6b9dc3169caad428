#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// libmeshwright: plans, predictions and what-if in a process of your own, without the command line.
//
//   struct meshwright *plan = meshwright_new();
//   if (meshwright_plan(plan, "{\"model\": \"llama-3-8b\", \"cluster\": \"dgx-h100\", "
//                             "\"seq_len\": 8192, \"global_batch\": 128}"))
//       fprintf(stderr, "%s\n", meshwright_error(plan));
//   else
//       puts(meshwright_text(plan));  // plan.json
//   meshwright_free(plan);
//
// Every call answers with the exit status of the command of its name: 0 yes, 1 the answer is no
// (nothing fits), 2 the question is impossible, 3 a wrong file or text, 4 the machine failed. Past
// 0 meshwright_error() is the one line that the command would print, with members ("seq_len") where
// that names options. Nothing is printed, no file is written but by meshwright_save, and no call
// ends the process; only where the host's memory runs out does it end, as in all of meshwright.
// Handles share nothing: each may be used by one thread at a time.
//
// Data (models, clusters, devices, stacks) are found as by the command: in the folder that
// MESHWRIGHT_DATA names, else in share/meshwright beside the lib that the library lies in.
//
// Names carry the version MESHWRIGHT_0.1 each; within 0.x a name that is there keeps its meaning,
// and structs grow at their end, which `struct_bytes` tells.

enum meshwright_status {
    MESHWRIGHT_YES = 0,
    MESHWRIGHT_NO = 1,
    MESHWRIGHT_IMPOSSIBLE = 2,
    MESHWRIGHT_WRONG_INPUT = 3,
    MESHWRIGHT_MACHINE_FAILED = 4
};

struct meshwright;  // a plan, or room for one

struct meshwright_figures {
    int64_t struct_bytes;  // sizeof of the caller's struct, set before the call
    double step_s;
    double step_s_low, step_s_high;  // 90 % of measured runs fell between; 0: not known
    double tokens_per_s;             // of all GPUs
    double mfu_ratio;
    int64_t peak_bytes, reserved_bytes;  // of the rank with most: allocated, and with the reserve
    int64_t device_bytes;                // of the smallest device
    int64_t gpu_count;
};

const char *meshwright_version(void);  // "0.1.0"

// Never NULL. Freed with all texts that came of it; NULL may be freed.
struct meshwright *meshwright_new(void);
void meshwright_free(struct meshwright *plan);

// The plan of a file that `meshwright plan` wrote.
int meshwright_load(struct meshwright *plan, const char *path);

// Searches the best plan. The question is a JSON object:
//   "model", "cluster"          a path or the name of a shipped file          must be there
//   "seq_len", "global_batch"   tokens; sequences a step                      must be there
//   "nodes", "gpus"             of the cluster; absent: as its file says
//   "stack"                     absent: the one with most measured runs on the device
//   "kernels"                   a table of measured kernels; absent: none
//   "precision", "optimizer"    absent: bf16 (fp32 on CPUs), adamw
//   "objective"                 "time", "cost" or "memory"; absent: time
//   "tokens"                    to train in all; absent: not asked
//   "pins"                      {"tp": 8, "zero": "1..3", "recompute": "full"}
// 1 where nothing fits. The plan is the one that the command writes for the same question.
int meshwright_plan(struct meshwright *plan, const char *question);

// Writes the plan to a file, whole or not at all.
int meshwright_save(struct meshwright *plan, const char *path);

// The prediction of the plan, as `meshwright simulate --json` prints it.
int meshwright_simulate(struct meshwright *plan);
// The plan's memory by stages, {"memory": {...}, "stages": [...]} of plan.json.
int meshwright_memory(struct meshwright *plan);
// The plan asked again with a few numbers changed, {"gpus": 64, "network_ratio": 0.5, ...}; keys as
// of the planner on a report's page (reports/page/replan.h). The answer is another plan.json; the
// handle's plan stays.
int meshwright_what_if(struct meshwright *plan, const char *change);

// The figures of the plan. 2 where `struct_bytes` is not set or no plan is there.
int meshwright_figures(struct meshwright *plan, struct meshwright_figures *figures);

// The last call's text, error, and what it took where the question says nothing or found odd (the
// notes and warnings of the command, a line each); "" where it has none. All live until the next
// call with this handle.
const char *meshwright_text(const struct meshwright *plan);
const char *meshwright_notes(const struct meshwright *plan);
const char *meshwright_error(const struct meshwright *plan);

#ifdef __cplusplus
}
#endif
