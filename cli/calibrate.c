#include "executor/calibrate/calibrate.h"
#include "cli/calibrate_job.h"
#include "cli/calibrate_restart.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "core/console.h"
#include "core/file.h"
#include "core/plain.h"
#include "core/units.h"

#include <stdio.h>
#include <string.h>

static char *device_text(struct arena *arena, const struct device *device)
{
    struct json_writer writer = {.arena = arena};
    device_write(&writer, NULL, device);
    return writer.text;
}

static char *cluster_text(struct arena *arena, const struct cluster *cluster)
{
    struct json_writer writer = {.arena = arena};
    cluster_write(&writer, NULL, cluster);
    return writer.text;
}

static char *stack_text(struct arena *arena, const struct stack *stack)
{
    struct json_writer writer = {.arena = arena};
    stack_write(&writer, NULL, stack);
    return writer.text;
}

static char *kernels_text(struct arena *arena, const struct kernel_table *table)
{
    struct json_writer writer = {.arena = arena};
    kernels_write(&writer, NULL, table);
    return writer.text;
}

enum { FILE_COUNT = 4 };

static const char *const *folder_paths(struct arena *arena, const char *folder)
{
    static const char *const NAMES[FILE_COUNT] = {"device", "cluster", "stack", "kernels"};
    const char **paths = ARENA_NEW(arena, const char *, FILE_COUNT);
    for (int i = 0; i < FILE_COUNT; i++)
        paths[i] = arena_print(arena, "%s/%s.json", folder, NAMES[i]);
    return paths;
}

static bool write_folder(struct arena *arena, const char *folder, const struct local *local,
                         struct err *err)
{
    if (!local->kernels) return err_set(err, ERR_SYSTEM, "no GEMM took any time");
    const char *const *paths = folder_paths(arena, folder);
    const struct file_text files[FILE_COUNT] = {
        {paths[0], device_text(arena, local->cluster->nodes[0].device)},
        {paths[1], cluster_text(arena, local->cluster)},
        {paths[2], stack_text(arena, local->stack)},
        {paths[3], kernels_text(arena, local->kernels)},
    };
    const char *said = output_said_files(arena, paths, FILE_COUNT);
    if (!file_write_all(files, FILE_COUNT, err)) return false;
    console_printf(stdout, "%s.\n%s is for --kernels.\n", said, plain_copy(arena, paths[3]));
    return true;
}

// The same file with the storage for checkpoints and what a restart takes, which are measured when
// the ranks are done.
static char *add_disk(struct arena *arena, const char *folder, const struct local_key *key,
                      char *text, struct err *err)
{
    struct local local = {0};
    double bytes_per_s = 0, restart_s = 0;
    if (!calibrate_disk(folder, &bytes_per_s, err)) return NULL;
    if (!local_parse(arena, text, key, &local, err)) return NULL;
    if (!calibrate_restart(arena, folder, &local, key, &restart_s, err)) return NULL;
    local.cluster->failures.host_checkpoint_bytes_per_s = bytes_per_s;
    local.cluster->failures.restart_s = restart_s;
    console_printf(stdout, "checkpoints are stored in %s at %s\nranks are started again in %s\n",
                   plain_copy(arena, folder), units_bytes_per_s(arena, bytes_per_s),
                   units_seconds(arena, restart_s));
    return local_text(arena, key, &local);
}

// And with the drive for what plans keep on NVMe.
static char *add_drive(struct arena *arena, const char *folder, const struct local_key *key,
                       char *text, struct err *err)
{
    struct local local = {0};
    struct drive drive = {0};
    if (!calibrate_drive(arena, folder, &drive, err)) return NULL;
    if (!local_parse(arena, text, key, &local, err)) return NULL;
    struct host *host = &local.cluster->nodes[0].host;
    host->nvme_bytes_per_s = drive.bytes_per_s;
    host->nvme_duplex_ratio = drive.duplex_ratio;
    host->nvme_bytes = drive.bytes;
    console_printf(
        stdout, "a file in %s is read and written at %s in turn, %s at once, %s are free there\n",
        plain_copy(arena, folder), units_bytes_per_s(arena, drive.bytes_per_s),
        units_bytes_per_s(arena, drive.bytes_per_s * drive.duplex_ratio),
        units_bytes(arena, (double)drive.bytes));
    return local_text(arena, key, &local);
}

// Folders of drives that are measured as well; NULL: none.
struct drives {
    const char *disk, *nvme;
};

static int run(struct arena *arena, struct calibrate_arguments *arguments,
               const struct drives *drives, struct err *err)
{
    struct launch_place place = launch_place_find();
    if (arguments->folder && !arguments->force && !place.is_launched &&
        !output_check_files(folder_paths(arena, arguments->folder), FILE_COUNT, err)) {
        return exit_status(err);
    }
    if (place.is_launched && arguments->into) return calibrate_rank(arena, arguments, &place, err);
    struct local_key key;
    if (!local_key_find(arena, arguments->backend, arguments->ranks, &key, err))
        return exit_status(err);
    char *text = calibrate_job(arguments, arena, &key, err);
    if (text && drives->disk) text = add_disk(arena, drives->disk, &key, text, err);
    if (text && drives->nvme) text = add_drive(arena, drives->nvme, &key, text, err);
    if (!text) return exit_status(err);
    const char *path = arguments->into ? arguments->into : local_path(arena, &key);
    if (!path && !arguments->folder) {
        err_set(err, ERR_SYSTEM, "neither XDG_CACHE_HOME nor HOME names a folder, and no -o");
        return exit_status(err);
    }
    const struct file_text file = {path, text};
    const char *said = path ? output_said(arena, path) : "";
    if (path && !file_write_all(&file, 1, err)) return exit_status(err);
    if (*said) console_printf(stdout, "%s: what CLUSTER local is from now on\n", said);
    if (!arguments->folder) return 0;
    struct local local = {0};
    bool done = local_parse(arena, text, &key, &local, err) &&
                write_folder(arena, arguments->folder, &local, err);
    return done ? 0 : exit_status(err);
}

int calibrate_command(struct arena *arena, int argc, char **argv, struct err *err)
{
    struct calibrate_arguments arguments = calibrate_arguments_default();
    struct drives drives = {0};
    const struct option options[] = {
        {"--ranks", OPTION_INT, &arguments.ranks,
         "ranks that measure at once (default: as many as cores, or GPUs)", "N", 1, 4096},
        {"--backend", OPTION_CHOICE, &arguments.backend,
         "what is measured; auto: GPUs where there are any", "auto|cpu|cuda", 0, 0},
        {"--seconds", OPTION_F64, &arguments.seconds,
         "to measure for, at most (default 15, of GPUs 60)", "S", 0.1, 90},
        {"--plan", OPTION_TEXT, &arguments.plan,
         "the GEMMs and attention of this plan as well, whatever they take", "PLAN", 0, 0},
        {"--disk", OPTION_TEXT, &drives.disk,
         "how fast checkpoints are stored there as well, and what a restart takes, for what `plan` "
         "and `run` predict of them",
         "DIR", 0, 0},
        {"--nvme", OPTION_TEXT, &drives.nvme,
         "how fast files are read and written there as well, for plans with --offload ...@nvme",
         "DIR", 0, 0},
        {"--long", OPTION_FLAG, &arguments.is_long, "a line for every kernel", NULL, 0, 0},
        {"--short", OPTION_FLAG, &arguments.is_short,
         "small kernels and messages only: quick and not to be trusted", NULL, 0, 0},
        {"Output", OPTION_GROUP, NULL, "CLUSTER local uses what was measured last", NULL, 0, 0},
        {"-o", OPTION_TEXT, &arguments.folder,
         "device, cluster and stack file, and kernels.json: every GEMM and attention measured",
         "FOLDER", 0, 0},
        {"--into", OPTION_OUTPUT, &arguments.into, "in place of the cache of CLUSTER local", "FILE",
         0, 0},
        {"--force", OPTION_FLAG, &arguments.force, "replace files that meshwright did not write",
         NULL, 0, 0},
        {"--quiet", OPTION_FLAG, &arguments.quiet, "no table", NULL, 0, 0},
        {0},
    };
    if (options_help(argc, argv, options)) return 0;
    if (!options_parse(options, argc, argv, err)) return exit_status(err);
    if (!output_check_folder(arguments.folder, err)) return exit_status(err);
    if (!output_take_stdout(&arguments.into, err)) return exit_status(err);
    return run(arena, &arguments, &drives, err);
}
