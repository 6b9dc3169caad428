#include "cli/whatif.h"

// What is asked of `whatif`, by the options that ask it. An option that has no say in it would be
// read and forgotten: it is refused instead.
enum mode {
    MODE_SWEEP,     // CLUSTER...
    MODE_OFFERS,    // --offers
    MODE_SCALING,   // --scaling, --calibrate, --measured
    MODE_LEAST,     // --min-gpus
    MODE_LARGEST,   // --largest-model
    MODE_KINDS,     // --tensor-kinds
    MODE_RELEASES,  // --releases
    MODE_NEEDS,     // no CLUSTER
    MODE_COUNT
};

static const char *const MODE_NAMES[MODE_COUNT] = {
    "CLUSTER",         "--offers",       "--scaling",  "--min-gpus",
    "--largest-model", "--tensor-kinds", "--releases", "no CLUSTER"};

enum {
    OFFERS = 1 << MODE_OFFERS,
    SCALING = 1 << MODE_SCALING,
    LEAST = 1 << MODE_LEAST,
    LARGEST = 1 << MODE_LARGEST,
    KINDS = 1 << MODE_KINDS,
    RELEASES = 1 << MODE_RELEASES,
    NEEDS = 1 << MODE_NEEDS,
};

// Where an option has no say; options that are not in the table have one everywhere.
static const struct {
    const char *option;
    unsigned modes;
} REFUSED[] = {
    {"--gpus", OFFERS},
    {"--nodes", OFFERS | LEAST | NEEDS},
    {"--bandwidth-factor", NEEDS},
    {"--intra-bandwidth-factor", NEEDS},
    {"--device-memory", OFFERS | NEEDS},
    {"--memory-factor", NEEDS},
    {"--flops-factor", NEEDS},
    {"--price-factor", LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--deadline", LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--budget", LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--min-gpus", OFFERS | SCALING | LARGEST | KINDS | RELEASES | NEEDS},
    {"--largest-model", SCALING | KINDS | RELEASES},
    {"--tensor-kinds", OFFERS | SCALING | NEEDS},
    {"--releases", OFFERS | SCALING | LEAST | LARGEST | KINDS | NEEDS},
    {"--tp-kind", KINDS},
    {"--scaling", OFFERS | LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--calibrate", OFFERS | LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--measured", OFFERS | LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--price-per-gpu-hour", OFFERS | LEAST | LARGEST | KINDS | RELEASES},
    {"--currency", LEAST | LARGEST | KINDS | RELEASES},
    {"--currency-rate", LEAST | LARGEST | KINDS | RELEASES},
    {"--ranks", OFFERS | NEEDS},
    {"--tokens", LEAST | LARGEST | KINDS | RELEASES},
    {"--kernels", NEEDS},
    {"--checkpoint-interval", LEAST | LARGEST | KINDS | RELEASES},
    {"--checkpoint-bandwidth", LEAST | LARGEST | KINDS | RELEASES},
    {"--async-checkpoints", LEAST | LARGEST | KINDS | RELEASES},
    {"--restart-s", LEAST | LARGEST | KINDS | RELEASES},
    {"--spares", LEAST | LARGEST | KINDS | RELEASES},
    {"--repair-s", LEAST | LARGEST | KINDS | RELEASES},
    {"--top", SCALING | LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--csv", LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"-o", LEAST | LARGEST | KINDS | RELEASES | NEEDS},
    {"--force", LEAST | LARGEST | KINDS | RELEASES | NEEDS},
};

// Pairs of which the first says nothing beside the second, whatever is asked.
static const struct {
    const char *option, *beside;
} SILENT[] = {
    {"--json", "--csv"},
    {"--top", "--json"},
    {"--top", "--csv"},
    {"--measured", "--csv"},
    {"--global-batch", "--batch-per-gpu"},
    {"--gpus", "--nodes"},
};

struct given {
    const struct option *options;
    int argc;
    char **argv;
};

static bool has(const struct given *given, const char *name)
{
    return options_given(given->options, given->argc, given->argv, name);
}

static enum mode mode_of(const struct whatif_arguments *arguments)
{
    if (arguments->offers) return MODE_OFFERS;
    if (arguments->clusters.count == 0) return MODE_NEEDS;
    if (arguments->tensor_kinds) return MODE_KINDS;
    if (arguments->largest_model) return MODE_LARGEST;
    if (arguments->min_gpus) return MODE_LEAST;
    if (arguments->releases) return MODE_RELEASES;
    return whatif_is_scaling(arguments) ? MODE_SCALING : MODE_SWEEP;
}

static bool check_mode(const struct given *given, enum mode mode, struct err *err)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        const char *option = REFUSED[i].option;
        if (!(REFUSED[i].modes & 1U << mode) || !has(given, option)) continue;
        if (mode == MODE_NEEDS) return err_set(err, ERR_USAGE, "%s needs a CLUSTER", option);
        return err_set(err, ERR_USAGE, "%s has no say beside %s", option, MODE_NAMES[mode]);
    }
    return true;
}

bool whatif_modes_check(const struct whatif_arguments *arguments, int argc, char **argv,
                        struct err *err)
{
    struct whatif_arguments copy = *arguments;
    struct option options[WHATIF_OPTION_COUNT] = {0};
    whatif_options(&copy, options);
    const struct given given = {options, argc, argv};
    for (size_t i = 0; i < sizeof SILENT / sizeof *SILENT; i++) {
        if (!has(&given, SILENT[i].option) || !has(&given, SILENT[i].beside)) continue;
        return err_set(err, ERR_USAGE, "%s has no say beside %s", SILENT[i].option,
                       SILENT[i].beside);
    }
    if (arguments->offers && arguments->clusters.count > 0) {
        return err_set(err, ERR_USAGE, "--offers takes the place of CLUSTER, found \"%s\" as well",
                       arguments->clusters.items[0]);
    }
    enum mode mode = mode_of(arguments);
    if (mode == MODE_NEEDS && arguments->largest_model)
        return err_set(err, ERR_USAGE, "--largest-model needs a CLUSTER");
    return check_mode(&given, mode, err);
}
