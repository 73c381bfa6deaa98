// Texts as UTF-8: whether bytes are one, and whether a text fits a pattern of LIKE.
#pragma once

#include "value.hpp"

namespace tidings {

// Whether Python would take these bytes for a text: no lone surrogates, nothing longer than it must be.
bool is_utf8(View bytes);

// Where a part of a text begins; the size of the text if it is not there. Code points need no care: UTF-8 is found
// at their borders only.
size_t found(View text, View part, size_t from);

// The tokens of a pattern as bytes: each literal with its length before it, and marks for the two wildcards.
class Pattern {
public:
    enum Token : char { Literal = 'L', One = '_', Any = '%' };
    static void append(std::string& pattern, Token token, View literal = {nullptr, 0});
    static bool fits(View pattern, View text);
    static View head(View pattern);     // what every match starts with
    static View tail(View pattern);     // what every match ends with
    static View longest(View pattern);  // the longest that every match contains
};

}  // namespace tidings
