#include "c_api/arguments.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "c_api/guard.hpp"
#include "c_api/sized.hpp"

namespace kiln::c_api {
namespace {

std::string names_of(const Op& op) {
  std::vector<std::string_view> names;
  for (const ArgSpec& arg : op.args) {
    names.emplace_back(arg.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::size_t index_of(const Op& op, std::string_view name) {
  const auto found = std::find_if(op.args.begin(), op.args.end(),
                                  [&](const ArgSpec& arg) { return arg.name == name; });
  if (found == op.args.end()) {
    refuse(fmt::format("{} has no argument \"{}\"; it has {}", op.name, name, names_of(op)));
  }
  return static_cast<std::size_t>(found - op.args.begin());
}

MemorySyncDomain sync_domain(int value) {
  if (value != KILN_SYNC_DOMAIN_DEFAULT && value != KILN_SYNC_DOMAIN_REMOTE) [[unlikely]] {
    refuse(fmt::format("options->memory_sync_domain is {}, which is no KILN_SYNC_DOMAIN_ constant",
                       value));
  }
  return value == KILN_SYNC_DOMAIN_REMOTE ? MemorySyncDomain::kRemote : MemorySyncDomain::kDefault;
}

}  // namespace

void refuse_kind(const kiln_arg& arg, std::size_t index) {
  refuse(fmt::format("argument {}{}{}: {} is no kind of argument; see KILN_ARG_TENSOR", index,
                     arg.name != nullptr ? " " : "", arg.name != nullptr ? arg.name : "",
                     arg.kind));
}

Order order_of(const Op& op, const kiln_arg* args, std::size_t count) {
  require_array(args, count, "args");
  if (count > op.args.size()) {
    refuse(fmt::format("{} takes {} arguments ({}), and {} came", op.name, op.args.size(),
                       names_of(op), count));
  }
  Order order{};
  std::uint32_t seen = 0;
  const bool named = count > 0 && args[0].name != nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    if ((args[i].name != nullptr) != named) {
      refuse(fmt::format("{}: argument {} has {} name, unlike argument 0; give all or none a name",
                         op.name, i, named ? "no" : "a"));
    }
    const std::size_t index = named ? index_of(op, args[i].name) : i;
    if ((seen >> index & 1U) != 0) {
      refuse(fmt::format("{}: argument \"{}\" came twice", op.name, op.args[index].name));
    }
    seen |= 1U << index;
    order[i] = static_cast<std::uint8_t>(index);
  }
  return order;
}

LaunchOptions launch_options(const kiln_launch_options& options) {
  const kiln_launch_options given = read_sized(&options, "options");
  LaunchOptions launch;
  launch.pdl = switched_on(given.pdl, true, "options->pdl");
  launch.serialize = switched_on(given.serialize, false, "options->serialize");
  launch.constants_ready = switched_on(given.constants_ready, true, "options->constants_ready");
  launch.workspace = given.workspace;
  launch.workspace_bytes = given.workspace_bytes;
  if (given.has_priority != 0) {
    launch.priority = given.priority;
  }
  launch.memory_sync_domain = sync_domain(given.memory_sync_domain);
  return launch;
}

}  // namespace kiln::c_api
