#pragma once

#include <string>

#include "tests/support/catch.hpp"

namespace kiln::test {

/// Of a kind of error codes, the exception that carries one: Type. There are two kinds, the door's
/// and that of the classes behind it; whoever includes one of them says what it is.
template <class Code>
struct ErrorWith;

/// The message of the Error that `call` throws; fails the test when it throws none or of another
/// code.
template <class Code, class Call>
std::string error_of(Code code, Call&& call) {
  try {
    call();
  } catch (const typename ErrorWith<Code>::Type& error) {
    CHECK(std::string(error_code_name(error.code())) == error_code_name(code));
    return error.what();
  }
  FAIL("no error where " << error_code_name(code) << " was expected");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace kiln::test
