#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "trait_registry/sources.hpp"

namespace kiln::registry {
namespace {

// "3 "a.cuh"", "4 <b>", "5 macro": line, then what is included.
std::vector<std::string> found(const std::string& text) {
  std::vector<std::string> result;
  for (const IncludeDirective& include : scan_includes(text)) {
    std::string line = std::to_string(include.line) + (include.probe ? " has " : " ");
    const std::string name(include.name);
    switch (include.form) {
      case IncludeDirective::Form::kQuoted:
        line += '"' + name + '"';
        break;
      case IncludeDirective::Form::kAngled:
        line += '<' + name + '>';
        break;
      case IncludeDirective::Form::kComputed:
        line += "macro";
        break;
    }
    if (include.form != IncludeDirective::Form::kComputed) {
      CHECK(text.substr(include.offset, include.name.size()) == name);
    }
    result.push_back(line);
  }
  return result;
}

using Lines = std::vector<std::string>;

TEST_CASE("Includes are found with their line, form and place") {
  CHECK(found("#include \"a.cuh\"\nint x;\n#include <b.h>\n") == Lines{"1 \"a.cuh\"", "3 <b.h>"});
  CHECK(found("#include \"no_newline.cuh\"") == Lines{"1 \"no_newline.cuh\""});
  CHECK(found("").empty());
}

TEST_CASE("Blanks, comments and line splices around a directive do not hide it") {
  CHECK(found("  #  include\t\"a\"\n") == Lines{"1 \"a\""});
  CHECK(found("/* c */ # /* d */ include /* e */ \"a\" // f\n") == Lines{"1 \"a\""});
  CHECK(found("/* two\nlines */ #include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("# \\\n include \\\n \"a\"\n") == Lines{"3 \"a\""});
  CHECK(found("#include\"a\"\n#include<b>\n") == Lines{"1 \"a\"", "2 <b>"});
  CHECK(found("#include \"a\"\r\n#include \"b\"\r\n") == Lines{"1 \"a\"", "2 \"b\""});
}

TEST_CASE("A __has_include in a condition is found and marked as a probe") {
  CHECK(found("#if __has_include(\"a\")\n#endif\n") == Lines{"1 has \"a\""});
  CHECK(found("#if defined(__has_include) && !__has_include ( <b> ) || __has_include(\"c\")\n") ==
        Lines{"1 has <b>", "1 has \"c\""});
  CHECK(found("#if 1\n#elif __has_include(NAME) // __has_include(\"d\")\n#endif\n") ==
        Lines{"2 has macro"});
  CHECK(found("#if X \\\n && __has_include(\"a\")\n#include \"b\"\n") ==
        Lines{"2 has \"a\"", "3 \"b\""});
  CHECK(found("#ifdef __has_include\n#endif\n").empty());
  CHECK(found("#if 0\n#if __has_include(\"a\")\n#elif __has_include(\"b\")\n#endif\n#endif\n")
            .empty());
  CHECK(found("#if 0 || __has_include(\"a\")\n#endif\n") == Lines{"1 has \"a\""});
}

TEST_CASE("An include in a comment is none") {
  CHECK(found("// #include \"a\"\n").empty());
  CHECK(found("/*\n#include \"a\"\n*/\n").empty());
  CHECK(found("// spliced \\\n#include \"a\"\n").empty());
  CHECK(found("/* // */ \n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("// /*\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("#include \"a\" /* open\n#include \"b\"\n*/\n#include \"c\"\n") ==
        Lines{"1 \"a\"", "4 \"c\""});
  CHECK(found("/* never closed\n#include \"a\"\n").empty());
}

TEST_CASE("An include in a string or character literal is none") {
  CHECK(found("const char* s = \"\\\n#include \\\"a\\\"\\n\";\n").empty());
  CHECK(found("const char* s = R\"(\n#include \"a\"\n)\";\n#include \"b\"\n") == Lines{"4 \"b\""});
  CHECK(found("auto s = u8R\"x(\n)\"\n#include \"a\"\n)x\";\n#include \"b\"\n") ==
        Lines{"5 \"b\""});
  CHECK(found("const char* s = \"/*\";\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("char c = '\"';\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("char c = '\\'';\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("const char* s = \"\\\"\";\n#include \"a\"\n") == Lines{"2 \"a\""});
}

TEST_CASE(
    "A digit separator opens no character literal, and an R that is part of a name no raw string") {
  CHECK(found("int n = 1'000; // '\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("int n = 0x1'0 /* it's */;\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("MY_R\"(\";\n#include \"a\"\n") == Lines{"2 \"a\""});
}

TEST_CASE("A literal that is not closed ends with its line") {
  CHECK(found("#error don't\n#include \"a\"\n") == Lines{"2 \"a\""});
  CHECK(found("#error \"open\n#include \"a\"\n") == Lines{"2 \"a\""});
}

TEST_CASE("An include under #if 0 is none, its #else is live, and nesting is kept track of") {
  CHECK(found("#if 0\n#include \"a\"\n#endif\n#include \"b\"\n") == Lines{"4 \"b\""});
  CHECK(found("#if 0\n#include \"a\"\n#else\n#include \"b\"\n#endif\n") == Lines{"4 \"b\""});
  CHECK(found("#if 0 // off\n#if 1\n#include \"a\"\n#else\n#include \"b\"\n#endif\n#include \"c\"\n"
              "#elif 1\n#include \"d\"\n#endif\n") == Lines{"9 \"d\""});
  CHECK(found("#if 0\ndon't\n#endif\n#include \"a\"\n") == Lines{"4 \"a\""});
  CHECK(found("#ifdef X\n#if 0\n#include \"a\"\n#endif\n#include \"b\"\n#endif\n") ==
        Lines{"5 \"b\""});
}

TEST_CASE("Other conditions are not evaluated: an include under one counts") {
  CHECK(found("#ifdef X\n#include \"a\"\n#else\n#include \"b\"\n#endif\n") ==
        Lines{"2 \"a\"", "4 \"b\""});
  CHECK(found("#if 0 + X\n#include \"a\"\n#endif\n") == Lines{"2 \"a\""});
  CHECK(found("#if 01\n#include \"a\"\n#endif\n") == Lines{"2 \"a\""});
  CHECK(found("#if !0\n#include \"a\"\n#endif\n") == Lines{"2 \"a\""});
  CHECK(found("#ifdef 0\n#include \"a\"\n#endif\n") == Lines{"2 \"a\""});
}

TEST_CASE("What only looks like an include is none") {
  CHECK(found("#include_next \"a\"\n#includes \"b\"\n#define include \"c\"\n").empty());
  CHECK(found("int x; #include \"a\"\n").empty());
  CHECK(found("include \"a\"\n").empty());
}

TEST_CASE("An include of a macro, or one that is not closed, is computed") {
  CHECK(found("#include HEADER\n#include \"a\"\n") == Lines{"1 macro", "2 \"a\""});
  CHECK(found("#include \"open\n") == Lines{"1 macro"});
  CHECK(found("#include\n") == Lines{"1 macro"});
}

TEST_CASE("Unbalanced directives do no harm") {
  CHECK(found("#endif\n#else\n#elif 1\n#include \"a\"\n#if 0\n") == Lines{"4 \"a\""});
  CHECK(found("#\n#include \"a\"\n#") == Lines{"2 \"a\""});
  CHECK(found("R\"").empty());
  CHECK(found("'").empty());
  CHECK(found("\\").empty());
}

}  // namespace
}  // namespace kiln::registry
