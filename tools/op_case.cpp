#include "tools/op_case.hpp"

#include <fmt/format.h>

#include <kiln/error.hpp>

namespace kiln::tools {

OpCase find_case(std::string_view op) {
  for (OpCase& op_case : builtin_cases()) {
    if (op_case.op == op) {
      return std::move(op_case);
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("this command cannot run '{0}' by itself: it has no inputs and no "
                          "reference for it. Describe them in tools/cases/{0}.cpp",
                          op));
}

std::vector<TimedShape> shapes_of_rows(std::string_view text, const std::string& symbol,
                                       std::initializer_list<std::int64_t> rows,
                                       const std::map<std::string, std::int64_t>& dims) {
  std::vector<TimedShape> out;
  for (const std::int64_t count : rows) {
    out.push_back({fmt::format(fmt::runtime(text), count), dims});
    out.back().dims[symbol] = count;
  }
  return out;
}

}  // namespace kiln::tools
