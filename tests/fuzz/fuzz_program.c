// libFuzzer: whatever the text of a program, of torch.export or of StableHLO, reading it ends with
// a graph or one line. Bytes of a packed program change nothing but its checksum, so that packed
// seeds are unpacked first, and numbers and names are exchanged as a whole.
#include "core/arena.h"
#include "core/gzip.h"
#include "core/zip.h"
#include "models/onnx.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 1 << 17 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

static void put(char **at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*at)++ = (char)(number >> 8 * i & 0xff);
}

// A zip of one stored member (PKWARE's APPNOTE.TXT, 4.3.7, 4.3.12 and 4.3.16); its bytes.
static size_t archive_of(const uint8_t *text, size_t size, char *archive)
{
    static const char NAME[] = "x/models/model.json";
    enum { LENGTH = sizeof NAME - 1, REST = 18 };
    char *at = archive;
    put(&at, 0x04034b50, 4);
    put(&at, 20, 2), put(&at, 0, 8), put(&at, 0, 4);
    put(&at, size, 4), put(&at, size, 4), put(&at, LENGTH, 2), put(&at, 0, 2);
    memcpy(at, NAME, LENGTH), at += LENGTH;
    memcpy(at, text, size), at += size;
    size_t directory = (size_t)(at - archive);
    put(&at, 0x02014b50, 4);
    put(&at, 20, 2), put(&at, 20, 2), put(&at, 0, 8), put(&at, 0, 4);
    put(&at, size, 4), put(&at, size, 4), put(&at, LENGTH, 2), put(&at, 0, 8), put(&at, 0, 8);
    memcpy(at, NAME, LENGTH), at += LENGTH;
    size_t directory_bytes = (size_t)(at - archive) - directory;
    put(&at, 0x06054b50, 4);
    put(&at, 0, 4), put(&at, 1, 2), put(&at, 1, 2);
    put(&at, directory_bytes, 4), put(&at, directory, 4), put(&at, 0, 2);
    return (size_t)(at - archive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char archive[TEXT_MOST + 512];
    if (size < 1 || size > TEXT_MOST) return 0;
    struct arena arena = {0};
    struct err err = {0};
    const struct onnx_options options = {.training = true, .moment_count = 2};
    bool is_packed = *data == '{';
    size_t bytes = is_packed ? archive_of(data, size, archive) : size;
    const void *file = is_packed ? (const void *)archive : data;
    const struct onnx_graph *graph = onnx_read(&arena, "fuzz", file, bytes, &options, &err);
    assert((graph != NULL) == (err.kind == ERR_NONE));
    assert(!strchr(err.text, '\n'));
    assert(!is_packed || !strstr(err.text, "a zip, but no program"));
    arena_free(&arena);
    return 0;
}

// The text of a packed program in its place; 0: it is none.
static size_t unpack(uint8_t *data, size_t size, size_t most)
{
    struct arena arena = {0};
    struct err err = {0};
    const struct zip archive = {.bytes = (const char *)data, .size = (int64_t)size};
    struct zip member;
    const char *text = NULL;
    size_t bytes = 0;
    if (size > 4 && memcmp(data, "PK", 2) == 0 &&
        zip_find_in(&archive, "/models/", ".json", &member) && member.method == ZIP_DEFLATED)
        text = gzip_unpack_bare(&arena, "fuzz", member.bytes, (size_t)member.size, TEXT_MOST,
                                &bytes, &err);
    if (text && bytes <= most) memcpy(data, text, bytes);
    if (!text || bytes > most) bytes = 0;
    arena_free(&arena);
    return bytes;
}

static bool is_word(uint8_t c)
{
    return isalnum(c) || c == '_' || c == '-';
}

// The word at or behind a place; false: there is none.
static bool find_word(const uint8_t *data, size_t size, size_t place, size_t *first, size_t *end)
{
    while (place < size && !is_word(data[place]))
        place++;
    *first = place;
    while (place < size && is_word(data[place]))
        place++;
    *end = place;
    return *first < *end;
}

// One word becomes a number, or another word of the text.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static const char *const NUMBERS[] = {"-1", "0",  "1",  "2",   "3",          "5",
                                          "-7", "17", "64", "100", "4294967296", "1000000000000"};
    uint32_t draw = seed * 2654435761u + 12345;
    size_t unpacked = unpack(data, size, most), first, end, from, until;
    if (unpacked) return unpacked;
    if (draw >> 28 == 0 || size < 2) return LLVMFuzzerMutate(data, size, most);
    if (!find_word(data, size, (draw ^ seed << 7) % size, &first, &end)) return size;
    char word[128];
    size_t length = 0;
    draw = draw * 1664525u + 1013904223u;
    bool is_other = draw >> 30 == 0 && find_word(data, size, draw % size, &from, &until);
    if (is_other) {
        length = until - from < sizeof word ? until - from : sizeof word;
        memcpy(word, data + from, length);
    } else {
        const char *number = NUMBERS[(draw >> 8) % (sizeof NUMBERS / sizeof *NUMBERS)];
        length = strlen(number);
        memcpy(word, number, length);
    }
    if (size - (end - first) + length > most) return size;
    memmove(data + first + length, data + end, size - end);
    memcpy(data + first, word, length);
    return size - (end - first) + length;
}
