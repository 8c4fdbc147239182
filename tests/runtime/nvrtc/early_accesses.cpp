#include "tests/runtime/nvrtc/early_accesses.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>

namespace kiln::test {
namespace {

struct Instruction {
  std::string text;  // Without its guard.
  bool guarded = false;
  std::string opcode;
  std::vector<std::string> operands;  // Between top-level commas.
};

struct Body {
  std::vector<Instruction> instructions;
  std::multimap<std::string, std::size_t> labels;  // To the instruction that follows.
};

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return std::string(text);
}

std::string without_comments(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    if (text.starts_with("//")) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.starts_with("/*")) {
      const std::size_t end = text.find("*/", 2);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    } else {
      out += text.front();
      text.remove_prefix(1);
    }
  }
  return out;
}

// What stands between the braces of the entry's body.
std::optional<std::string> body_text(const std::string& ptx, std::string_view symbol) {
  const std::string head = ".entry " + std::string(symbol);
  for (std::size_t at = ptx.find(head); at != std::string::npos; at = ptx.find(head, at + 1)) {
    const std::size_t open = ptx.find('(', at);
    if (open == std::string::npos || trimmed(ptx.substr(at, open - at)) != head) {
      continue;
    }
    const std::size_t begin = ptx.find('{', open);
    int depth = 0;
    for (std::size_t i = begin; i < ptx.size(); ++i) {
      depth += ptx[i] == '{' ? 1 : ptx[i] == '}' ? -1 : 0;
      if (depth == 0) {
        return ptx.substr(begin + 1, i - begin - 1);
      }
    }
  }
  return std::nullopt;
}

std::vector<std::string> split_operands(const std::string& text) {
  std::vector<std::string> operands;
  std::string operand;
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' || c == '[' || c == '(' ? 1 : c == '}' || c == ']' || c == ')' ? -1 : 0;
    if (c == ',' && depth == 0) {
      operands.push_back(trimmed(operand));
      operand.clear();
    } else {
      operand += c;
    }
  }
  if (!trimmed(operand).empty()) {
    operands.push_back(trimmed(operand));
  }
  return operands;
}

Instruction parse_instruction(std::string text) {
  Instruction made;
  if (text.front() == '@') {
    made.guarded = true;
    const std::size_t end = text.find_first_of(" \t\n");
    text = end == std::string::npos ? std::string() : trimmed(text.substr(end));
  }
  made.text = text;
  const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  made.opcode = text.substr(0, end);
  made.operands = split_operands(text.substr(end));
  return made;
}

// Braces that open or close a scope stand where an instruction would begin.
Body parse_body(const std::string& text) {
  Body body;
  std::string statement;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool at_start = trimmed(statement).empty();
    const bool lone = c == ':' && text[i - 1] != ':' && i + 1 < text.size() && text[i + 1] != ':';
    if (at_start && (c == '{' || c == '}')) {
      statement.clear();
    } else if (lone && trimmed(statement).find_first_of(" \t\n@") == std::string::npos) {
      body.labels.emplace(trimmed(statement), body.instructions.size());
      statement.clear();
    } else if (c == ';') {
      if (!at_start && trimmed(statement).front() != '.') {
        body.instructions.push_back(parse_instruction(trimmed(statement)));
      }
      statement.clear();
    } else {
      statement += c;
    }
  }
  return body;
}

bool is(const std::string& opcode, std::string_view name) {
  return opcode.starts_with(name) && (opcode.size() == name.size() || opcode[name.size()] == '.');
}

std::set<std::string> registers_of(const std::string& operand) {
  std::set<std::string> registers;
  for (std::size_t at = operand.find('%'); at != std::string::npos;
       at = operand.find('%', at + 1)) {
    std::size_t end = at + 1;
    while (end < operand.size() &&
           (std::isalnum(static_cast<unsigned char>(operand[end])) != 0 || operand[end] == '_')) {
      ++end;
    }
    registers.insert(operand.substr(at, end - at));
  }
  return registers;
}

// The number of the parameter in "[symbol_param_3+8]", or -1.
int param_number(const std::string& operand) {
  constexpr std::string_view kMark = "_param_";
  const std::size_t at = operand.rfind(kMark);
  return at == std::string::npos ? -1 : std::atoi(operand.c_str() + at + kMark.size());
}

// For each register, the parameters that its value is worked out from. What was loaded from memory
// is worked out from none.
std::map<std::string, std::set<int>> sources_of(const Body& body) {
  std::map<std::string, std::set<int>> sources;
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instruction& instruction : body.instructions) {
      if (instruction.operands.empty() || is(instruction.opcode, "st") ||
          is(instruction.opcode, "atom") || is(instruction.opcode, "red")) {
        continue;
      }
      std::set<int> from;
      if (is(instruction.opcode, "ld")) {
        const int param =
            instruction.opcode.starts_with("ld.param") && instruction.operands.size() > 1
                ? param_number(instruction.operands[1])
                : -1;
        if (param < 0) {
          continue;
        }
        from.insert(param);
      } else {
        for (std::size_t i = 1; i < instruction.operands.size(); ++i) {
          for (const std::string& source : registers_of(instruction.operands[i])) {
            from.insert(sources[source].begin(), sources[source].end());
          }
        }
      }
      for (const std::string& target : registers_of(instruction.operands[0])) {
        const std::size_t before = sources[target].size();
        sources[target].insert(from.begin(), from.end());
        changed = changed || sources[target].size() != before;
      }
    }
  }
  return sources;
}

std::set<std::size_t> before_the_wait(const Body& body) {
  std::set<std::size_t> reached;
  std::vector<std::size_t> open{0};
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    if (at >= body.instructions.size() || !reached.insert(at).second) {
      continue;
    }
    const Instruction& instruction = body.instructions[at];
    const std::string& opcode = instruction.opcode;
    if (is(opcode, "bra")) {
      const auto [first, last] = body.labels.equal_range(instruction.operands.at(0));
      for (auto label = first; label != last; ++label) {
        open.push_back(label->second);
      }
    } else if (is(opcode, "brx")) {
      for (const auto& [label, target] : body.labels) {
        open.push_back(target);
      }
    }
    const bool leaves = is(opcode, "bra") || is(opcode, "brx") || is(opcode, "ret") ||
                        is(opcode, "exit") || is(opcode, "trap") || opcode == "griddepcontrol.wait";
    if (!leaves || instruction.guarded) {
      open.push_back(at + 1);
    }
  }
  return reached;
}

enum class Touch { kNothing, kLoad, kOther };

Touch touch_of(const std::string& opcode) {
  const auto has = [&](std::string_view part) { return opcode.find(part) != std::string::npos; };
  if (is(opcode, "prefetch") || is(opcode, "prefetchu")) {
    return has(".L1") ? Touch::kOther : Touch::kNothing;
  }
  if (is(opcode, "cp")) {
    return has("prefetch") || has("commit") || has("wait") || has("mbarrier.arrive")
               ? Touch::kNothing
           : has(".shared.global") || has(".shared::cluster.global") || has(".shared::cta.global")
               ? Touch::kLoad
               : Touch::kOther;
  }
  const bool elsewhere = has(".shared") || has(".param") || has(".const") || has(".local");
  if (is(opcode, "ld") || is(opcode, "ldu")) {
    return elsewhere ? Touch::kNothing : Touch::kLoad;
  }
  const bool writes = is(opcode, "st") || is(opcode, "atom") || is(opcode, "red") ||
                      is(opcode, "call") || is(opcode, "suld") || is(opcode, "sust") ||
                      is(opcode, "tex");
  return writes && !elsewhere ? Touch::kOther : Touch::kNothing;
}

}  // namespace

std::vector<std::string> early_accesses(std::string_view ptx, std::string_view symbol,
                                        const PointerParams& params) {
  const std::optional<std::string> text = body_text(without_comments(ptx), symbol);
  if (!text) {
    return {"no entry " + std::string(symbol)};
  }
  const Body body = parse_body(*text);
  const std::map<std::string, std::set<int>> sources = sources_of(body);
  const auto through_constants = [&](const Instruction& load) {
    bool constant = false;
    bool other = false;
    // The target of a load and the place in shared memory that a copy fills come first.
    for (const std::string& address :
         registers_of(load.operands.size() > 1 ? load.operands[1] : "")) {
      const auto found = sources.find(address);
      for (const int param : found != sources.end() ? found->second : std::set<int>()) {
        constant = constant || params.constant.contains(param);
        other = other || params.other.contains(param);
      }
    }
    return constant && !other;
  };
  std::vector<std::string> early;
  for (const std::size_t at : before_the_wait(body)) {
    const Instruction& instruction = body.instructions[at];
    const Touch touch = touch_of(instruction.opcode);
    if (touch == Touch::kOther || (touch == Touch::kLoad && !through_constants(instruction))) {
      early.push_back(instruction.text);
    }
  }
  return early;
}

}  // namespace kiln::test
