#include "topologies/found.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// `nvidia-smi topo -m`: rows of GPUs say how each is joined to the others; columns of NICs count
// them. NV18 everywhere is a switch; a mix of NV1, NV2 and SYS is a mesh. How fast a link is stands
// nowhere.

enum { COLUMNS_MAX = 256 };

// Takes the underlines of the header out (ESC [ ... letter).
static char *without_colours(struct arena *arena, const struct found_source *source)
{
    char *text = ARENA_NEW(arena, char, source->bytes + 1), *to = text;
    for (const char *from = source->text; *from;) {
        if (*from != '\033') {
            *to++ = *from++;
            continue;
        }
        while (*from && !isalpha((unsigned char)*from))
            from++;
        from += *from != '\0';
    }
    return text;
}

static int split(char *line, char **words)
{
    int count = 0;
    char *rest = line;
    for (char *word = strtok_r(line, " \t\r", &rest); word && count < COLUMNS_MAX;
         word = strtok_r(NULL, " \t\r", &rest))
        words[count++] = word;
    return count;
}

static bool is_gpu(const char *word)
{
    return strncmp(word, "GPU", 3) == 0 && isdigit((unsigned char)word[3]);
}

static bool is_nic(const char *word)
{
    bool is_numbered = strncmp(word, "NIC", 3) == 0 && isdigit((unsigned char)word[3]);
    return is_numbered || strncmp(word, "mlx", 3) == 0;
}

static void read_header(char **words, int count, struct found_facts *found)
{
    for (int i = 0; i < count; i++) {
        found->gpus += is_gpu(words[i]);
        found->nics += is_nic(words[i]);
        if (is_nic(words[i])) found->network = "infiniband";
    }
}

struct links {
    int most;  // of a GPU
    bool has_pair_without, has_unequal_pairs;
    int first;  // links of the first pair
};

static void read_row(char **words, int count, const struct found_facts *found, struct links *links)
{
    int sum = 0;
    for (int i = 1; i < count && i <= found->gpus; i++) {
        if (strcmp(words[i], "X") == 0) continue;
        int joined = strncmp(words[i], "NV", 2) == 0 ? atoi(words[i] + 2) : 0;
        if (links->first < 0) links->first = joined;
        links->has_unequal_pairs = links->has_unequal_pairs || joined != links->first;
        links->has_pair_without = links->has_pair_without || joined == 0;
        sum += joined;
    }
    if (sum > links->most) links->most = sum;
}

bool found_matrix(struct arena *arena, const struct found_source *source, struct found_facts *found,
                  struct err *err)
{
    char *words[COLUMNS_MAX], *rest = NULL;
    struct links links = {.first = -1};
    int rows = 0;
    bool has_header = false;
    for (char *line = strtok_r(without_colours(arena, source), "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        int count = split(line, words);
        if (count == 0) continue;
        if (!has_header && is_gpu(words[0])) {
            has_header = true;
            read_header(words, count, found);
        } else if (is_gpu(words[0])) {
            rows++;
            if (count <= found->gpus)
                return err_set(err, ERR_INPUT, "%s: the row of %s has %d of %d columns",
                               source->path, words[0], count - 1, found->gpus);
            read_row(words, count, found, &links);
        }
    }
    if (rows != found->gpus)
        return err_set(err, ERR_INPUT, "%s: %d GPUs in the header, %d rows", source->path,
                       found->gpus, rows);
    if (found->gpus < 2) return true;
    // Through a switch every pair shows all the links that a GPU has.
    bool is_switched = !links.has_pair_without && !links.has_unequal_pairs && found->gpus > 2;
    found->intra = links.most == 0 ? "pcie" : is_switched ? "nvswitch" : "nvlink";
    found->links = is_switched ? links.first : links.most;
    return true;
}
