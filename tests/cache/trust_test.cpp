#include "cache/trust.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"

namespace kiln::cache {
namespace {

using Kind = Verdict::Kind;

constexpr uid_t kMe = 1000;
constexpr uid_t kOther = 2000;
constexpr gid_t kMyGroup = 100;
constexpr gid_t kOtherGroup = 200;

TrustPolicy me() {
  return {kMe, {kMyGroup, 101}, false, false};
}

TrustPolicy root() {
  return {0, {0}, false, false};
}

FileStatus directory(uid_t uid, mode_t mode, gid_t gid = kMyGroup) {
  FileStatus status;
  status.kind = FileStatus::Kind::kDirectory;
  status.uid = uid;
  status.gid = gid;
  status.mode = mode;
  return status;
}

FileStatus pack(uid_t uid, mode_t mode) {
  FileStatus status = directory(uid, mode);
  status.kind = FileStatus::Kind::kFile;
  return status;
}

Kind default_root(const FileStatus& status, const TrustPolicy& policy) {
  return judge(status, TrustRole::kDefaultRoot, policy).kind;
}

Kind named_root(const FileStatus& status, const TrustPolicy& policy) {
  return judge(status, TrustRole::kNamedRoot, policy).kind;
}

Kind layer(const FileStatus& status, const TrustPolicy& policy) {
  return judge(status, TrustRole::kReadOnlyLayer, policy).kind;
}

}  // namespace

TEST_CASE(
    "A default root must be this user's and writable by nobody else, whatever was agreed to") {
  TrustPolicy policy = GENERATE(me(), root());
  policy.allow_world_writable = GENERATE(true, false);
  policy.group_shared = GENERATE(true, false);
  const uid_t self = policy.uid;
  CHECK(default_root(directory(self, 0700), policy) == Kind::kTrusted);
  CHECK(default_root(directory(self, 0755), policy) == Kind::kTrusted);
  CHECK(default_root(directory(self, 0770), policy) == Kind::kRefused);
  CHECK(default_root(directory(self, 0702), policy) == Kind::kRefused);
  CHECK(default_root(directory(self, 01777), policy) == Kind::kRefused);
  CHECK(default_root(directory(kOther, 0700), policy) == Kind::kRefused);
  CHECK(default_root(directory(kOther, 0755), policy) == Kind::kRefused);
}

TEST_CASE("A default root of root is not another user's") {
  CHECK(default_root(directory(0, 0755), me()) == Kind::kRefused);
}

TEST_CASE("A named root of this user is trusted") {
  const TrustPolicy policy = GENERATE(me(), root());
  const mode_t mode = GENERATE(0700U, 0750U, 0755U, 0500U);
  CHECK(named_root(directory(policy.uid, mode), policy) == Kind::kTrusted);
  CHECK(named_root(directory(policy.uid, mode, kOtherGroup), policy) == Kind::kTrusted);
}

TEST_CASE("A named root of root is used with a warning") {
  CHECK(named_root(directory(0, 0755), me()) == Kind::kWarned);
}

TEST_CASE(
    "A named root of another user is refused, except by root, who is warned (field report 151)") {
  CHECK(named_root(directory(kOther, 0755), me()) == Kind::kRefused);
  CHECK(named_root(directory(kOther, 0700), me()) == Kind::kRefused);
  CHECK(named_root(directory(kOther, 0755), root()) == Kind::kWarned);
}

TEST_CASE("A named root that a group of this process can write is used with a warning") {
  const uid_t owner = GENERATE(values<uid_t>({0, kMe, kOther}));
  const mode_t mode = GENERATE(0770U, 0775U, 02775U, 02770U);
  const gid_t group = GENERATE(values<gid_t>({kMyGroup, 101}));  // Effective, and supplementary.
  CHECK(named_root(directory(owner, mode, group), me()) == Kind::kWarned);
  TrustPolicy sharing = me();
  sharing.group_shared = true;
  CHECK(named_root(directory(owner, mode, group), sharing) == Kind::kTrusted);
}

TEST_CASE("A named root that another group can write is refused") {
  const TrustPolicy policy = GENERATE(me(), root());
  const uid_t owner = GENERATE(values<uid_t>({0, kMe, kOther}));
  CHECK(named_root(directory(owner, 0775, kOtherGroup), policy) == Kind::kRefused);
}

TEST_CASE(
    "A named root that everybody can write needs its own opt-in, sticky or not (field report "
    "151)") {
  TrustPolicy policy = GENERATE(me(), root());
  policy.group_shared = GENERATE(true, false);
  const uid_t owner = GENERATE(values<uid_t>({0, kMe, kOther}));
  const mode_t mode = GENERATE(0777U, 01777U, 0707U, 02777U);
  const Verdict strict = judge(directory(owner, mode), TrustRole::kNamedRoot, policy);
  CHECK(strict.kind == Kind::kRefused);
  CHECK(strict.code == EACCES);
  CHECK(strict.remedy.find("KILN_CACHE_ALLOW_WORLD_WRITABLE") != std::string::npos);
  policy.allow_world_writable = true;
  CHECK(named_root(directory(owner, mode), policy) == Kind::kWarned);
}

TEST_CASE("A read-only layer must be root's or this user's and not writable by everybody") {
  TrustPolicy policy = GENERATE(me(), root());
  policy.allow_world_writable = GENERATE(true, false);  // Is about the root alone.
  CHECK(layer(directory(policy.uid, 0755), policy) == Kind::kTrusted);
  CHECK(layer(directory(0, 0755), policy) == Kind::kTrusted);
  CHECK(layer(directory(0, 0775, kOtherGroup), policy) == Kind::kTrusted);
  CHECK(layer(directory(kOther, 0755), policy) == Kind::kRefused);
  CHECK(layer(directory(policy.uid, 01777), policy) == Kind::kRefused);
  CHECK(layer(directory(0, 0757), policy) == Kind::kRefused);
}

TEST_CASE("A pack follows the rule of layers, unless it is validly signed") {
  const TrustPolicy policy = me();
  CHECK(judge(pack(kMe, 0644), TrustRole::kPack, policy).kind == Kind::kTrusted);
  CHECK(judge(pack(0, 0644), TrustRole::kPack, policy).kind == Kind::kTrusted);
  for (const FileStatus& doubtful : {pack(kOther, 0644), pack(kMe, 0666)}) {
    const Verdict verdict = judge(doubtful, TrustRole::kPack, policy);
    CHECK(verdict.kind == Kind::kRefused);
    CHECK(verdict.remedy.find("sign") != std::string::npos);
    CHECK(judge(doubtful, TrustRole::kPack, policy, true).kind == Kind::kTrusted);
  }
}

TEST_CASE("What is of another kind is refused, whoever owns it and however it is signed") {
  for (const TrustRole role :
       {TrustRole::kDefaultRoot, TrustRole::kNamedRoot, TrustRole::kReadOnlyLayer}) {
    FileStatus status = directory(kMe, 0700);
    status.kind = FileStatus::Kind::kSymlink;
    CHECK(judge(status, role, me(), true).code == ELOOP);
    status.kind = FileStatus::Kind::kFile;
    CHECK(judge(status, role, me(), true).code == ENOTDIR);
  }
  CHECK(judge(directory(kMe, 0700), TrustRole::kPack, me(), true).code == EINVAL);
}

TEST_CASE("Every refusal gives its reason with the numbers, and a remedy") {
  const Verdict owner = judge(directory(kOther, 0755), TrustRole::kNamedRoot, me());
  CHECK(owner.reason.find("2000") != std::string::npos);
  CHECK(owner.reason.find("1000") != std::string::npos);
  const Verdict mode = judge(directory(kMe, 01777), TrustRole::kReadOnlyLayer, me());
  CHECK(mode.reason.find("1777") != std::string::npos);
  for (const uid_t uid : {uid_t{0}, kMe, kOther}) {
    for (const mode_t bits : {0700U, 0775U, 0777U}) {
      for (const TrustRole role :
           {TrustRole::kDefaultRoot, TrustRole::kNamedRoot, TrustRole::kReadOnlyLayer}) {
        const Verdict verdict = judge(directory(uid, bits, kOtherGroup), role, me());
        CHECK(verdict.reason.empty() == (verdict.kind == Kind::kTrusted));
        CHECK(verdict.remedy.empty() == (verdict.kind == Kind::kTrusted));
        CHECK((verdict.code == 0) == verdict.ok());
      }
    }
  }
}

TEST_CASE("What lies at a path is judged, a link by itself") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const std::string place = *disk.canonical(dir.str());
  const TrustPolicy policy = TrustPolicy::of_process();
  CHECK(judge_path(disk, place, TrustRole::kDefaultRoot, policy).kind == Kind::kTrusted);
  CHECK(judge_path(disk, place + "/x", TrustRole::kDefaultRoot, policy).code == ENOENT);
  std::filesystem::create_directory_symlink(place, place + "/link");
  CHECK(judge_path(disk, place + "/link", TrustRole::kDefaultRoot, policy).code == ELOOP);
}

TEST_CASE("A check asks until the answer is yes, and warns with the first one") {
  const kiln::test::TempDir dir;
  PosixFileSystem disk;
  const std::string path = *disk.canonical(dir.str()) + "/root";
  TrustCheck check(disk, path, TrustRole::kNamedRoot, TrustPolicy::of_process());
  CHECK(check().code == ENOENT);
  std::filesystem::create_directory(path);
  std::filesystem::permissions(path, std::filesystem::perms::all);
  CHECK(check().code == EACCES);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_all | std::filesystem::perms::group_all);
  CHECK(check().kind == Kind::kWarned);
  CHECK(check().kind == Kind::kTrusted);
}

TEST_CASE("The process's own ids come from the kernel") {
  const TrustPolicy policy = TrustPolicy::of_process();
  CHECK(policy.uid == geteuid());
  CHECK(policy.in_group(getegid()));
  CHECK_FALSE(policy.group_shared);
  CHECK_FALSE(policy.allow_world_writable);
}

}  // namespace kiln::cache
