#pragma once

/// \file
/// Whom the cache believes. Whoever can write a cache directory decides what code runs on this
/// process's GPU, so each directory and pack is judged by its kind, owner and mode before anything
/// in it is used.
///
///   default and fallback root   must be a directory of the effective user that nobody else can
///                               write; its name is not a link.
///   named root (API, variable)  may also belong to root, be writable by a group of this process,
///                               or, where this process is root, belong to another user: each with
///                               one warning. One that everybody can write needs an opt-in, and
///                               gives a warning even then.
///   read-only layer, pack       must belong to root or the effective user, and not be writable by
///                               everybody. A validly signed pack is used whoever can write it.
///
/// In the group-shared mode a root that a group of this process can write is what was asked for,
/// and gives no warning.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "cache/file_system.hpp"

namespace kiln::cache {

/// Who this process is, and what its user has agreed to. Ids come from the kernel alone: no user
/// database is asked, so a random uid of a container is as good as any.
struct TrustPolicy {
  uid_t uid = 0;              ///< The effective user.
  std::vector<gid_t> groups;  ///< The effective group and the supplementary ones.
  bool group_shared = false;  ///< What is created is for the whole group.
  bool allow_world_writable = false;

  bool in_group(gid_t group) const;
  /// This process's ids; nothing agreed to.
  static TrustPolicy of_process();
};

/// What is judged. The default root and the fallback root are found without being asked for, and
/// the strictest rule is for them.
enum class TrustRole : std::uint8_t { kDefaultRoot, kNamedRoot, kReadOnlyLayer, kPack };

struct Verdict {
  enum class Kind : std::uint8_t { kTrusted, kWarned, kRefused };

  Kind kind = Kind::kTrusted;
  int code = 0;  ///< Of a refusal: the errno that says it best.
  std::string
      reason;  ///< "it belongs to user 7 and this process runs as user 8". Empty if trusted.
  std::string remedy;  ///< A sentence on what can be done about it. Empty if trusted.

  bool ok() const noexcept { return kind != Kind::kRefused; }
  /// "trusted", "trusted, with a warning" or "refused".
  const char* name() const noexcept;
};

/// The decision; pure. `status` is of the path itself, links not followed.
Verdict judge(const FileStatus& status, TrustRole role, const TrustPolicy& policy,
              bool validly_signed = false);

/// The same for what lies at `path` now. A path that cannot be looked at is refused with the errno
/// of that: ENOENT where nothing lies.
Verdict judge_path(FileSystem& file_system, const std::string& path, TrustRole role,
                   const TrustPolicy& policy);

/// Asks about one path until the answer is yes, and remembers that: a directory that is not there
/// when a store is made may be somebody else's when it is used. Thread-safe.
class TrustCheck {
 public:
  TrustCheck(FileSystem& file_system, std::string path, TrustRole role, TrustPolicy policy)
      : file_system_(file_system),
        path_(std::move(path)),
        role_(role),
        policy_(std::move(policy)) {}

  /// A warning is given with the first yes only.
  Verdict operator()();

 private:
  FileSystem& file_system_;
  const std::string path_;
  const TrustRole role_;
  const TrustPolicy policy_;
  std::atomic<bool> trusted_ = false;
};

}  // namespace kiln::cache
