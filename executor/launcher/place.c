#include "executor/launcher/parts.h"

#include <assert.h>
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

int launch_home(const int *left_out, int count, int rank)
{
    assert(rank >= 0 && count >= 0);
    int home = rank;
    for (int i = 0; i < count && left_out[i] <= home; i++)
        home++;
    return home;
}

// The places that our launcher leaves out: "1,3".
static void pass_by(struct launch_place *place)
{
    const char *at = getenv(LAUNCH_LEFT_OUT);
    place->home = place->rank;
    if (!at || !place->memory_name) return;
    for (char *end; *at; at = *end ? end + 1 : end) {
        long left_out = strtol(at, &end, 10);
        if (end == at) return;
        place->home += left_out <= place->home;
        place->local_rank += left_out <= place->local_rank;
        place->is_moved = true;
    }
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
        pass_by(&place);
        assert(place.rank < place.rank_count && place.home >= place.rank);
        return place;
    }
    return (struct launch_place){.rank_count = 1};
}
