#include "executor/data/tokens.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

// NumPy's format (NEP 1): "\x93NUMPY", major and minor version, the length of a header, and that: a
// dictionary of Python with "descr", "fortran_order" and "shape". Numbers follow.

static bool refuse(const struct tokens *tokens, const char *what, struct err *err)
{
    return err_set(err, ERR_INPUT, "%s: %s, wanted whole numbers of one dimension", tokens->path,
                   what);
}

// What stands behind a key of the dictionary.
static const char *value_of(const char *header, const char *key)
{
    const char *at = strstr(header, key);
    if (!at) return NULL;
    at += strlen(key);
    return at + strspn(at, " :");
}

static bool read_type(struct tokens *tokens, const char *type, struct err *err)
{
    // "'<u2'"; bytes have no order and say '|'.
    bool is_whole = type && strnlen(type, 5) == 5 && type[0] == '\'' && strchr("<|", type[1]) &&
                    strchr("ui", type[2]) && strchr("1248", type[3]) && type[4] == '\'';
    if (!is_whole) return refuse(tokens, "found numbers of another kind", err);
    tokens->is_signed = type[2] == 'i';
    tokens->id_bytes = type[3] - '0';
    return true;
}

// Version 1.0 has two bytes for the header's length, later ones four.
bool tokens_numpy(struct tokens *tokens, struct err *err)
{
    const unsigned char *map = tokens->map;
    size_t head = map[6] == 1 ? 10 : 12, length = map[8] + 256u * map[9];
    if (tokens->map_bytes < 12) return refuse(tokens, "found a header that is cut off", err);
    if (map[6] > 1) length += 65536u * (map[10] + 256u * (size_t)map[11]);
    char header[1024];
    // A header of plain numbers has less than a hundred bytes, padded to a multiple of 64.
    if (length >= sizeof header) return refuse(tokens, "found a header of records", err);
    if (head + length > tokens->map_bytes)
        return refuse(tokens, "found a header that is cut off", err);
    memcpy(header, map + head, length);
    header[length] = '\0';
    if (!read_type(tokens, value_of(header, "'descr'"), err)) return false;
    const char *shape = value_of(header, "'shape'");
    char *end = NULL;
    tokens->count = shape && *shape == '(' ? strtoll(shape + 1, &end, 10) : -1;
    if (tokens->count < 0 || end == shape + 1 || strncmp(end, ",)", 2) != 0)
        return refuse(tokens, "found another shape", err);
    assert(tokens->id_bytes >= 1 && tokens->id_bytes <= 8);
    tokens->ids = map + head + length;
    size_t room = (tokens->map_bytes - head - length) / (size_t)tokens->id_bytes;
    if ((size_t)tokens->count > room)
        return err_set(err, ERR_INPUT, "%s: found %zu numbers, its header says %lld: it is cut off",
                       tokens->path, room, (long long)tokens->count);
    return true;
}
