#include "executor/launcher/parts.h"

#include <errno.h>
#include <stdlib.h>

static bool read_number(const char *name, int *number)
{
    const char *text = getenv(name);
    if (!text || !*text) return false;
    char *end;
    errno = 0;
    long read = strtol(text, &end, 10);
    if (*end || errno || read < 0 || read > 1 << 24) return false;
    *number = (int)read;
    return true;
}

struct launch_place launch_place_find(void)
{
    // A batch script of Slurm has SLURM_PROCID too, but no step: only srun's tasks have both.
    static const struct {
        const char *rank, *count, *local;
    } NAMES[] = {
        {LAUNCH_RANK, LAUNCH_RANK_COUNT, LAUNCH_LOCAL_RANK},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"},
    };
    for (int i = 0; i < (int)(sizeof NAMES / sizeof *NAMES); i++) {
        struct launch_place place = {0};
        bool is_here = read_number(NAMES[i].rank, &place.rank) &&
                       read_number(NAMES[i].count, &place.rank_count);
        // One task of a foreign launcher is nobody's rank; one of ours is watched by it.
        bool is_alone = i > 0 && place.rank_count == 1;
        if (!is_here || place.rank >= place.rank_count || is_alone) continue;
        place.is_launched = true;
        place.is_spawned = i == 0;
        place.memory_name = getenv(LAUNCH_MEMORY);
        // Right on one host; on several, back ends take it modulo the count of their devices.
        if (!read_number(NAMES[i].local, &place.local_rank)) place.local_rank = place.rank;
        const char *meeting = i == 0 ? getenv(LAUNCH_MEETING) : NULL;
        if (meeting && *meeting) place.meeting = meeting;
        return place;
    }
    return (struct launch_place){.rank_count = 1};
}
