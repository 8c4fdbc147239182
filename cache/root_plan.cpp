#include "cache/root_plan.hpp"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cache/layout.hpp"

namespace kiln::cache {
namespace {

// One directory, looked at.
struct Look {
  std::string path;  // Canonical when that could be found out, else as given.
  bool exists = false;
  Verdict verdict;        // Trusted while nothing is there.
  int writing_error = 0;  // Why entries cannot be written; 0 when they can.

  bool writable() const { return verdict.ok() && writing_error == 0; }
  bool readable() const { return verdict.ok() && exists; }
};

// Whether files can be made in `directory`. Where the sandbox does not know the question (EPERM),
// the first publish will find out.
int writing_error(FileSystem& file_system, const std::string& directory) {
  const auto writable = file_system.check_writable(directory);
  return writable || writable.error() == EPERM ? 0 : writable.error();
}

// The first ancestor that exists decides whether a missing directory can be made.
int creation_error(FileSystem& file_system, std::string path) {
  while (path != "/") {
    path = parent_path(path);
    const auto status = file_system.status(path);
    if (status) {
      return status->kind == FileStatus::Kind::kDirectory ? writing_error(file_system, path)
                                                          : ENOTDIR;
    }
    if (status.error() != ENOENT) {
      return status.error();
    }
  }
  return ENOENT;
}

// Only who names a directory may name it by a link; a link in a default root's place is not this
// user's directory, wherever it leads.
Io<std::string> canonical_root(FileSystem& file_system, const std::string& wanted, TrustRole role) {
  if (role != TrustRole::kDefaultRoot) {
    return file_system.canonical(wanted);
  }
  auto folder = file_system.canonical(parent_path(wanted));
  if (!folder) {
    return folder;
  }
  return (*folder == "/" ? "" : *folder) + wanted.substr(wanted.rfind('/'));
}

Look look_at(FileSystem& file_system, const std::string& wanted, TrustRole role,
             const TrustPolicy& policy) {
  Look look{wanted, false, {}, 0};
  const auto canonical = canonical_root(file_system, wanted, role);
  if (!canonical) {
    look.writing_error = canonical.error();
    return look;
  }
  look.path = *canonical;
  Verdict verdict = judge_path(file_system, look.path, role, policy);
  if (verdict.code == ENOENT) {
    look.writing_error = creation_error(file_system, look.path);
    return look;
  }
  look.exists = true;
  look.verdict = std::move(verdict);
  if (look.verdict.ok()) {
    const std::string top = Layout(look.path).top();
    const bool used = file_system.status(top).has_value();
    look.writing_error = writing_error(file_system, used ? top : look.path);
  }
  return look;
}

// A clause about a directory that new entries cannot go to, or that gives a warning.
std::string describe(const Look& look) {
  if (!look.verdict.ok()) {
    return fmt::format("is not used: {}", look.verdict.reason);
  }
  std::string text = "is writable";
  if (look.writing_error != 0) {
    text = fmt::format("cannot be written: {}{}", errno_text(look.writing_error),
                       look.exists ? "; it is only read" : "");
  }
  return look.verdict.reason.empty() ? text : fmt::format("{}, and {}", text, look.verdict.reason);
}

Modes modes_of(const RootChoice& choice, const TrustPolicy& policy) {
  if (!choice.named()) {
    return Modes::private_to_user();
  }
  return policy.group_shared ? Modes::group_shared() : Modes::readable();
}

// Gives what it says about the chosen root.
std::string use_chosen(FileSystem& file_system, const RootChoice& choice, RootPlan& plan) {
  if (choice.origin == RootChoice::Origin::kNone) {
    return fmt::format("no cache root ({})", choice.why);
  }
  if (!choice.problem.empty()) {
    plan.verdict = {Verdict::Kind::kRefused, EINVAL, choice.problem, "Name an absolute path."};
    return fmt::format("{} ({}) is not used: {}", choice.path, choice.why, choice.problem);
  }
  Look look = look_at(file_system, choice.path, plan.role, plan.policy);
  plan.verdict = look.verdict;
  (look.writable() ? plan.writable : plan.read_only) =
      look.writable() || look.readable() ? look.path : "";
  return fmt::format("{} ({}) {}", look.path, choice.why, describe(look));
}

// For entries that the default root cannot take.
std::string use_fallback(FileSystem& file_system, const RootInputs& inputs, RootPlan& plan) {
  const std::string wanted = fallback_root(inputs);
  const Look look = look_at(file_system, wanted, TrustRole::kDefaultRoot, plan.policy);
  if (!look.writable()) {
    return fmt::format("{} {}; new kernels stay in memory", look.path, describe(look));
  }
  plan.writable = look.path;
  plan.fallback = true;
  return fmt::format("new kernels go to {}", look.path);
}

}  // namespace

std::string remedies(const RootPlan& plan) {
  const std::string& own = plan.verdict.remedy;
  if (own.empty()) {
    return plan.remedy;
  }
  const bool as_meant = plan.verdict.kind == Verdict::Kind::kWarned && !plan.writable.empty();
  return as_meant ? own : own + " " + plan.remedy;
}

RootPlan plan_root(FileSystem& file_system, const RootInputs& inputs) {
  const RootChoice choice = choose_root(inputs);
  RootPlan plan;
  plan.role = choice.named() ? TrustRole::kNamedRoot : TrustRole::kDefaultRoot;
  plan.policy = inputs.trust;
  plan.modes = modes_of(choice, inputs.trust);
  plan.remedy = root_remedy(choice.origin);
  plan.description = use_chosen(file_system, choice, plan);
  const bool as_meant = !plan.writable.empty();
  if (!as_meant) {
    plan.description += "; " + (choice.named() ? "new kernels stay in memory"
                                               : use_fallback(file_system, inputs, plan));
  }
  if (!as_meant || plan.verdict.kind != Verdict::Kind::kTrusted) {
    plan.warning = fmt::format("cache: {}. {}", plan.description, remedies(plan));
  } else if (inputs.trust.group_shared && !choice.named()) {
    plan.warning = fmt::format(
        "cache: {}, for this user alone: only a root that was named can be shared by a group. {}",
        plan.description, plan.remedy);
  }
  return plan;
}

}  // namespace kiln::cache
