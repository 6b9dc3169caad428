#include "core/err.h"
#include "core/plain.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Parts of the text may come from a file or the command line: whatever they hold, an error stays
// one printable line. A text that is cut says so.
static void make_one_line(char *text, size_t size, bool is_cut)
{
    if (is_cut) {
        size_t end = size - sizeof "...";
        while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
            end--;
        memcpy(text + end, "...", sizeof "...");
    }
    plain_make(text);
}

bool err_set(struct err *err, enum err_kind kind, const char *format, ...)
{
    assert(kind != ERR_NONE);
    if (err->kind) return false;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    assert(length >= 0);
    make_one_line(err->text, sizeof err->text, (size_t)length >= sizeof err->text);
    err->kind = kind;
    return false;
}

void err_add(struct err *err, const char *format, ...)
{
    assert(err->kind != ERR_NONE);
    size_t length = strlen(err->text), room = sizeof err->text - length;
    va_list args;
    va_start(args, format);
    int added = vsnprintf(err->text + length, room, format, args);
    va_end(args);
    assert(added >= 0);
    make_one_line(err->text, sizeof err->text, (size_t)added >= room);
}
