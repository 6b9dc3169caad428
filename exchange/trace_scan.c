#include "exchange/trace_scan.h"

#include "core/file.h"
#include "core/json.h"
#include "core/plain.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static bool fail(struct trace_scan *scan, const char *wanted)
{
    return err_set(scan->err, ERR_INPUT, "%s:%d:%lld: expected %s", scan->path, scan->line,
                   (long long)scan->column, wanted);
}

bool scan_open(struct trace_scan *scan, const char *path, struct err *err)
{
    scan->path = path;
    scan->err = err;
    scan->line = 1;
    scan->column = 1;
    scan->depth = scan->length = scan->at = 0;
    scan->file = gzopen(path, "rb");
    if (scan->file) return true;
    return file_fail_read(path, errno, err);
}

void scan_close(struct trace_scan *scan)
{
    assert(scan->depth >= 0);
    if (scan->file) gzclose_r(scan->file);
    scan->file = NULL;
}

// The next byte, which stays; -1: there is none.
static int peek_byte(struct trace_scan *scan)
{
    if (scan->err->kind) return -1;
    if (scan->at < scan->length) return scan->buffer[scan->at];
    scan->at = 0;
    scan->length = gzread(scan->file, scan->buffer, SCAN_BUFFER_BYTES);
    int code = Z_OK;
    const char *why = gzerror(scan->file, &code);
    // zlib takes a file that ends too early for one that ends.
    bool is_bad = scan->length < 0 || code == Z_BUF_ERROR || code == Z_DATA_ERROR;
    if (is_bad && (code == Z_ERRNO || code == Z_MEM_ERROR)) {
        file_fail_read(scan->path, code == Z_ERRNO ? errno : ENOMEM, scan->err);
    } else if (is_bad) {
        // zlib's text starts with the path.
        size_t named = strncmp(why, scan->path, strlen(scan->path)) == 0 ? strlen(scan->path) : 0;
        const char *reason = why + named + (named ? strspn(why + named, ": ") : 0);
        err_set(scan->err, ERR_INPUT, "cannot read %s: %s", scan->path, reason);
    }
    if (is_bad) scan->length = 0;
    return scan->length > 0 ? scan->buffer[0] : -1;
}

// Lines and columns count from 1 and by bytes, as all places of errors do.
static int take_byte(struct trace_scan *scan)
{
    int byte = peek_byte(scan);
    if (byte < 0) return byte;
    scan->at++;
    scan->column++;
    if (byte == '\n') {
        scan->line++;
        scan->column = 1;
    }
    return byte;
}

int scan_peek(struct trace_scan *scan)
{
    int byte = peek_byte(scan);
    while (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n') {
        take_byte(scan);
        byte = peek_byte(scan);
    }
    return byte;
}

bool scan_take(struct trace_scan *scan, char wanted)
{
    const char text[] = {'\'', wanted, '\'', 0};
    if (scan_peek(scan) != (unsigned char)wanted) return fail(scan, text);
    take_byte(scan);
    return true;
}

// Before a member or an item: a comma between two, the bracket behind the last.
static bool another(struct trace_scan *scan, bool *first, char closing)
{
    assert(scan->depth > 0);
    if (scan->err->kind) return false;
    int next = scan_peek(scan);
    if (next == (unsigned char)closing) {
        take_byte(scan);
        scan->depth--;
        return false;
    }
    if (*first) {
        *first = false;
        return true;
    }
    if (next != ',') return fail(scan, closing == '}' ? "',' or '}'" : "',' or ']'");
    take_byte(scan);
    return true;
}

static bool enter(struct trace_scan *scan, char bracket)
{
    if (!scan_take(scan, bracket)) return false;
    if (++scan->depth > JSON_DEPTH_MAX) return fail(scan, "no more than 64 levels");
    return true;
}

bool scan_item(struct trace_scan *scan, bool *first)
{
    if (*first && !enter(scan, '[')) return false;
    return another(scan, first, ']');
}

bool scan_member(struct trace_scan *scan, bool *first)
{
    if (*first && !enter(scan, '{')) return false;
    if (!another(scan, first, '}')) return false;
    return scan_text(scan) && scan_take(scan, ':');
}

static int digit_of(int byte)
{
    if (byte >= '0' && byte <= '9') return byte - '0';
    if (byte >= 'a' && byte <= 'f') return byte - 'a' + 10;
    return byte >= 'A' && byte <= 'F' ? byte - 'A' + 10 : -1;
}

// Characters that are told by number are never those of names that we look for: one that is not
// ASCII becomes a question mark.
static int escaped(struct trace_scan *scan)
{
    static const char FROM[] = "bfnrt", TO[] = "\b\f\n\r\t";
    int byte = take_byte(scan), code = 0;
    const char *found = byte > 0 ? strchr(FROM, byte) : NULL;
    if (found && *found) return TO[found - FROM];
    if (byte == '"' || byte == '\\' || byte == '/') return byte;
    if (byte != 'u') return fail(scan, "an escape"), -1;
    for (int i = 0; i < 4; i++) {
        int digit = digit_of(take_byte(scan));
        if (digit < 0) return fail(scan, "four hexadecimal digits"), -1;
        code = code * 16 + digit;
    }
    return code > 0 && code < 0x80 ? code : '?';
}

// Cuts a character that is not whole and makes the rest plain.
static void end_text(char *text, size_t length)
{
    assert(length < SCAN_TEXT_BYTES);
    text[length] = '\0';
    size_t at = 0;
    while (at < length) {
        size_t bytes = plain_utf8_length(text + at);
        if (!bytes && length - at < 4) break;
        at += bytes ? bytes : 1;
    }
    text[at < length ? at : length] = '\0';
    plain_make(text);
}

bool scan_text(struct trace_scan *scan)
{
    if (scan_peek(scan) != '"') return fail(scan, "a text");
    take_byte(scan);
    size_t length = 0;
    for (;;) {
        int byte = take_byte(scan);
        if (byte == '"') break;
        if (byte < 0x20) return fail(scan, "the end of a text");
        if (byte == '\\') byte = escaped(scan);
        if (byte < 0) return false;
        if (length + 1 < SCAN_TEXT_BYTES) scan->text[length++] = (char)byte;
    }
    end_text(scan->text, length);
    return true;
}

bool scan_number(struct trace_scan *scan, double *value)
{
    char text[64];
    size_t length = 0;
    int byte = scan_peek(scan);
    while (byte > 0 && strchr("+-.0123456789eE", byte) && length + 1 < sizeof text) {
        text[length++] = (char)take_byte(scan);
        byte = peek_byte(scan);
    }
    text[length] = '\0';
    char *end = text;
    bool starts = *text == '-' || (*text >= '0' && *text <= '9');
    *value = starts ? strtod(text, &end) : 0;
    if (end == text || *end || !isfinite(*value)) return fail(scan, "a number");
    return true;
}

static bool skip_word(struct trace_scan *scan)
{
    char text[8];
    size_t length = 0;
    for (int byte = scan_peek(scan); byte >= 'a' && byte <= 'z' && length + 1 < sizeof text;
         byte = peek_byte(scan))
        text[length++] = (char)take_byte(scan);
    text[length] = '\0';
    bool is_word =
        strcmp(text, "true") == 0 || strcmp(text, "false") == 0 || strcmp(text, "null") == 0;
    return is_word || fail(scan, "a value");
}

// As deep as a document may be, no deeper.
bool scan_skip(struct trace_scan *scan)
{
    bool first = true;
    double number;
    switch (scan_peek(scan)) {
    case '{':
        while (scan_member(scan, &first) && scan_skip(scan))
            ;
        break;
    case '[':
        while (scan_item(scan, &first) && scan_skip(scan))
            ;
        break;
    case '"':
        return scan_text(scan);
    case 't':
    case 'f':
    case 'n':
        return skip_word(scan);
    default:
        return scan_number(scan, &number);
    }
    return !scan->err->kind;
}

bool scan_end(struct trace_scan *scan)
{
    return !scan->err->kind && (scan_peek(scan) < 0 || fail(scan, "the end of the file")) &&
           !scan->err->kind;
}
