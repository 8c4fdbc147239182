#include "cache/trust.hpp"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>
#include <unistd.h>

namespace kiln::cache {
namespace {

constexpr uid_t kRoot = 0;
constexpr mode_t kGroupWrites = 020;
constexpr mode_t kEverybodyWrites = 002;

using Kind = FileStatus::Kind;

Verdict trusted() {
  return {};
}

Verdict warned(std::string reason, std::string remedy) {
  return {Verdict::Kind::kWarned, 0, std::move(reason), std::move(remedy)};
}

Verdict refused(int code, std::string reason, std::string remedy) {
  return {Verdict::Kind::kRefused, code, std::move(reason), std::move(remedy)};
}

std::string everybody(const FileStatus& status) {
  return fmt::format("everybody can write it (mode {:04o})", status.mode);
}

std::string group(const FileStatus& status) {
  return fmt::format("group {} can write it (mode {:04o})", status.gid, status.mode);
}

std::string owner(const FileStatus& status, const TrustPolicy& policy) {
  return fmt::format("it belongs to user {} and this process runs as user {}", status.uid,
                     policy.uid);
}

Verdict judge_kind(const FileStatus& status, TrustRole role) {
  const bool pack = role == TrustRole::kPack;
  if (status.kind == (pack ? Kind::kFile : Kind::kDirectory)) {
    return trusted();
  }
  if (status.kind == Kind::kSymlink) {
    return refused(ELOOP, "it is a symbolic link", "Name what it leads to.");
  }
  return refused(pack ? EINVAL : ENOTDIR, pack ? "it is not a plain file" : "it is not a directory",
                 pack ? "Name a pack file." : "Name a directory.");
}

Verdict judge_default_root(const FileStatus& status, const TrustPolicy& policy) {
  if (status.uid != policy.uid) {
    return refused(EACCES, owner(status, policy), "Give it to this user.");
  }
  const std::string take_away = "Take that right away (chmod go-w).";
  if ((status.mode & kEverybodyWrites) != 0) {
    return refused(EACCES, everybody(status), take_away);
  }
  if ((status.mode & kGroupWrites) != 0) {
    return refused(EACCES, group(status), take_away);
  }
  return trusted();
}

Verdict judge_named_root(const FileStatus& status, const TrustPolicy& policy) {
  if ((status.mode & kEverybodyWrites) != 0) {
    return policy.allow_world_writable
               ? warned(everybody(status), "Take that right away (chmod o-w) when you can.")
               : refused(EACCES, everybody(status),
                         "Take that right away (chmod o-w), or set "
                         "KILN_CACHE_ALLOW_WORLD_WRITABLE=1 to run what anybody puts there.");
  }
  if ((status.mode & kGroupWrites) != 0) {
    if (!policy.in_group(status.gid)) {
      return refused(EACCES, group(status) + ", and this process is not in that group",
                     "Take that right away (chmod g-w), or run in that group.");
    }
    return policy.group_shared
               ? trusted()
               : warned(group(status), "Set KILN_CACHE_GROUP=1 if the group is meant to share it.");
  }
  if (status.uid == policy.uid) {
    return trusted();
  }
  if (status.uid == kRoot || policy.uid == kRoot) {
    return warned(owner(status, policy), "Give it to this user if that is not meant.");
  }
  return refused(EACCES, owner(status, policy),
                 "Name a directory of this user or of root, or one that a group of this process "
                 "can write.");
}

Verdict judge_read_only(const FileStatus& status, TrustRole role, const TrustPolicy& policy) {
  const std::string sign = role == TrustRole::kPack ? ", or sign the pack" : "";
  if ((status.mode & kEverybodyWrites) != 0) {
    return refused(EACCES, everybody(status),
                   fmt::format("Take that right away (chmod o-w){}.", sign));
  }
  if (status.uid != policy.uid && status.uid != kRoot) {
    return refused(EACCES, owner(status, policy),
                   fmt::format("Give it to root or to this user{}.", sign));
  }
  return trusted();
}

}  // namespace

bool TrustPolicy::in_group(gid_t group) const {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

TrustPolicy TrustPolicy::of_process() {
  TrustPolicy policy;
  policy.uid = geteuid();
  const int count = getgroups(0, nullptr);
  policy.groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  const int filled = getgroups(static_cast<int>(policy.groups.size()), policy.groups.data());
  policy.groups.resize(static_cast<std::size_t>(std::max(filled, 0)));
  policy.groups.push_back(getegid());
  return policy;
}

const char* Verdict::name() const noexcept {
  switch (kind) {
    case Kind::kTrusted:
      return "trusted";
    case Kind::kWarned:
      return "trusted, with a warning";
    case Kind::kRefused:
      return "refused";
  }
  return "unknown";
}

Verdict judge(const FileStatus& status, TrustRole role, const TrustPolicy& policy,
              bool validly_signed) {
  if (Verdict kind = judge_kind(status, role); !kind.ok()) {
    return kind;
  }
  switch (role) {
    case TrustRole::kDefaultRoot:
      return judge_default_root(status, policy);
    case TrustRole::kNamedRoot:
      return judge_named_root(status, policy);
    case TrustRole::kReadOnlyLayer:
    case TrustRole::kPack:
      break;
  }
  return validly_signed ? trusted() : judge_read_only(status, role, policy);
}

Verdict judge_path(FileSystem& file_system, const std::string& path, TrustRole role,
                   const TrustPolicy& policy) {
  const auto status = file_system.status(path);
  if (!status) {
    return refused(status.error(), errno_text(status.error()), "");
  }
  return judge(*status, role, policy);
}

Verdict TrustCheck::operator()() {
  if (trusted_.load(std::memory_order_relaxed)) {
    return trusted();
  }
  Verdict verdict = judge_path(file_system_, path_, role_, policy_);
  trusted_.store(verdict.ok(), std::memory_order_relaxed);
  return verdict;
}

}  // namespace kiln::cache
