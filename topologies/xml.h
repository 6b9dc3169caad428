#pragma once
#include "core/err.h"

// Just enough XML for what hwloc and NCCL write: elements with attributes and plain text, one after
// another, no more held than one tag. Comments, declarations and document types are skipped;
// entities stay as they stand. A file that is cut off or nests wrongly is ERR_INPUT at its line.

enum { XML_DEPTH_MAX = 64, XML_NAME_BYTES = 64 };

struct xml {
    const char *path, *text;
    size_t at;
    int line, depth;
    char names[XML_DEPTH_MAX][XML_NAME_BYTES];  // of the elements that are open
    struct err *err;
};

struct xml_tag {
    char name[XML_NAME_BYTES];
    bool opens, closes;      // <a> opens, </a> closes, <a/> does both
    const char *attributes;  // in the text, not ended by NUL
    size_t attribute_bytes;
    const char *text;  // that stands before a closing tag
    size_t text_bytes;
};

// The next tag; false at the end of the file and on error.
bool xml_next(struct xml *xml, struct xml_tag *tag);
// The value of an attribute, in the arena and plain; NULL: it has none.
const char *xml_attribute(struct arena *arena, const struct xml_tag *tag, const char *name);
