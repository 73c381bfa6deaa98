// A notification from its body, which is msgpack, without making anything of it.
//
// What is read here, Python would take as well: every name and value is checked. Whatever is odd in any way (names that
// come twice, bytes that are no text, numbers that do not compare, forms that nobody uses) is left to Python as a
// whole, which refuses it in its own words or gives it its meaning.
#pragma once

#include "reading.hpp"

namespace tidings {

class BodyReader {
public:
    // Whether the body was read; else nothing may be made of `into`.
    bool read(View body, const Names& names, Reading& into);

private:
    std::vector<uint32_t> guesses_;  // the same names in the same order as last time
    std::vector<uint64_t> others_;   // hashes of names that no filter uses
};

// The parts of a path, from a location as it is written; false if it is none.
bool as_path(View written, View& parts);

}  // namespace tidings
