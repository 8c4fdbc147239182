#include "cache/root_plan.hpp"

#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "cache/layout.hpp"

namespace kiln::cache {
namespace {

constexpr mode_t kSharedDirectoryMode = 0755;
constexpr mode_t kSharedFileMode = 0644;
constexpr mode_t kWritableByOthers = 022;

struct Probe {
  std::string path;  // Canonical when that could be found out, else as given.
  bool exists = false;
  int error = 0;  // Why entries cannot be written; 0 when they can.
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

Probe probe(FileSystem& file_system, const std::string& wanted) {
  Probe result{wanted};
  const auto canonical = file_system.canonical(wanted);
  if (!canonical) {
    result.error = canonical.error();
    return result;
  }
  result.path = *canonical;
  const auto status = file_system.status(result.path);
  if (!status) {
    result.error =
        status.error() == ENOENT ? creation_error(file_system, result.path) : status.error();
    return result;
  }
  if (status->kind != FileStatus::Kind::kDirectory) {
    result.error = ENOTDIR;
    return result;
  }
  result.exists = true;
  const std::string top = Layout(result.path).top();
  const bool used = file_system.status(top).has_value();
  result.error = writing_error(file_system, used ? top : result.path);
  return result;
}

// The fallback may not exist yet; if it does, it must be ours. Its name is never resolved: a link
// there is somebody's trap.
std::string usable_fallback(FileSystem& file_system, const RootInputs& inputs) {
  const std::string wanted = fallback_root(inputs);
  const auto folder = file_system.canonical(parent_path(wanted));
  if (!folder) {
    return "";
  }
  const std::string path = (*folder == "/" ? "" : *folder) + wanted.substr(wanted.rfind('/'));
  const auto ours = check_private_directory(file_system, path, inputs.uid);
  const int error = ours                     ? writing_error(file_system, path)
                    : ours.error() == ENOENT ? creation_error(file_system, path)
                                             : ours.error();
  return error == 0 ? path : "";
}

}  // namespace

Io<void> check_private_directory(FileSystem& file_system, const std::string& path, uid_t owner) {
  const auto status = file_system.status(path);
  if (!status) {
    return tl::unexpected(status.error());
  }
  if (status->kind != FileStatus::Kind::kDirectory) {
    return tl::unexpected(status->kind == FileStatus::Kind::kSymlink ? ELOOP : ENOTDIR);
  }
  if (status->uid != owner || (status->mode & kWritableByOthers) != 0) {
    return tl::unexpected(EACCES);
  }
  return {};
}

RootPlan plan_root(FileSystem& file_system, const RootInputs& inputs) {
  RootPlan plan;
  const RootChoice choice = choose_root(inputs);
  std::string found = fmt::format("no cache root ({})", choice.why);
  if (choice.origin != RootChoice::Origin::kNone) {
    const Probe root = probe(file_system, choice.path);
    if (root.error == 0) {
      plan.writable = root.path;
      plan.description = fmt::format("{} ({}), writable", root.path, choice.why);
      if (choice.named()) {
        plan.directory_mode = kSharedDirectoryMode;
        plan.file_mode = kSharedFileMode;
      }
      return plan;
    }
    plan.read_only = root.exists ? root.path : "";
    found = fmt::format("{} ({}) cannot be written: {}{}", root.path, choice.why,
                        errno_text(root.error), root.exists ? "; it is only read" : "");
  }
  if (!choice.named()) {
    plan.writable = usable_fallback(file_system, inputs);
  }
  if (plan.writable.empty()) {
    plan.description = found + "; new kernels stay in memory";
  } else {
    plan.required_owner = inputs.uid;
    plan.description = fmt::format("{}; new kernels go to {}", found, plan.writable);
  }
  plan.warning = fmt::format(
      "cache: {}. Set KILN_CACHE_DIR to a directory that this user can write.", plan.description);
  return plan;
}

}  // namespace kiln::cache
