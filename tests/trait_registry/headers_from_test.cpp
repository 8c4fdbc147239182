#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <kiln/error.hpp>
#include <kiln/op.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/registry.hpp"
#include "trait_registry/sources.hpp"

namespace kiln {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((dir_.path() / name).parent_path());
    std::ofstream(dir_.path() / name, std::ios::binary) << text;
  }
  std::string path(const std::string& name = "") const { return dir_.str(name); }
  std::vector<SourceFile> read(const std::string& entry) const {
    return headers_from(path(), entry);
  }

  // The message of the Error(kIo) that reading `entry` throws.
  std::string error(const std::string& entry) const {
    try {
      read(entry);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kIo);
      return error.what();
    }
    return "nothing was thrown";
  }

 private:
  test::TempDir dir_;
};

std::vector<std::string> names(const std::vector<SourceFile>& files) {
  std::vector<std::string> result;
  for (const SourceFile& file : files) {
    result.push_back(file.name);
  }
  return result;
}

using Names = std::vector<std::string>;

TEST_CASE("An entry without includes is read as it is, under its own name") {
  const Folder folder;
  const std::string text = "// caf\xc3\xa9\r\n__global__ void f() {}";
  folder.write("op.cu", text);
  const std::vector<SourceFile> files = folder.read("op.cu");
  REQUIRE(names(files) == Names{"op.cu"});
  CHECK(files[0].text == text);
  folder.write("empty.cu", "");
  CHECK(folder.read("empty.cu")[0].text.empty());
}

TEST_CASE("Two folders with a header of the same name are kept apart") {
  const Folder folder;
  folder.write("op.cu", "#include \"a/a.cuh\"\n#include \"b/b.cuh\"\n");
  folder.write("a/a.cuh", "#include \"util.cuh\"\n");
  folder.write("b/b.cuh", "#include \"util.cuh\" // b's\n");
  folder.write("a/util.cuh", "int a;\n");
  folder.write("b/util.cuh", "int b;\n");
  const std::vector<SourceFile> files = folder.read("op.cu");
  REQUIRE(names(files) == Names{"op.cu", "a/a.cuh", "b/b.cuh", "a/util.cuh", "b/util.cuh"});
  CHECK(files[1].text == "#include \"a/util.cuh\"\n");
  CHECK(files[2].text == "#include \"b/util.cuh\" // b's\n");
  CHECK(files[3].text == "int a;\n");
  CHECK(files[4].text == "int b;\n");
  // What was read is closed: nothing is left to find on disk.
  CHECK(registry::include_closure(files[0], files));
}

TEST_CASE("A header is found beside its includer first, then in the directory") {
  const Folder folder;
  folder.write("op.cu", "#include \"sub/x.cuh\"\n");
  folder.write("sub/x.cuh", "#include \"near.cuh\"\n#include \"far.cuh\"\n");
  folder.write("sub/near.cuh", "1");
  folder.write("near.cuh", "2");
  folder.write("far.cuh", "3");
  const std::vector<SourceFile> files = folder.read("op.cu");
  CHECK(names(files) == Names{"op.cu", "sub/x.cuh", "sub/near.cuh", "far.cuh"});
  CHECK(files[1].text == "#include \"sub/near.cuh\"\n#include \"far.cuh\"\n");
}

TEST_CASE("Cycles end, and a file that is reached by several names is read once") {
  const Folder folder;
  folder.write("op.cu", "#include \"./x.cuh\"\n#include \"sub/../x.cuh\"\n#include \"link.cuh\"\n");
  folder.write("x.cuh", "#include \"op.cu\"\n#include \"x.cuh\"\n");
  fs::create_directory(folder.path("sub"));
  fs::create_symlink("x.cuh", folder.path("link.cuh"));
  const std::vector<SourceFile> files = folder.read("op.cu");
  CHECK(names(files) == Names{"op.cu", "x.cuh"});
  CHECK(files[0].text == "#include \"x.cuh\"\n#include \"x.cuh\"\n#include \"x.cuh\"\n");
  CHECK(files[1].text == "#include \"op.cu\"\n#include \"x.cuh\"\n");
}

TEST_CASE(
    "A file that is nowhere is an error that says who includes it, from which line, and where was "
    "looked") {
  const Folder folder;
  folder.write("op.cu", "\n\n#include \"gone.cuh\"\n");
  const std::string root = fs::canonical(folder.path()).string();
  CHECK(folder.error("op.cu") ==
        "headers_from: \"" + root + "/op.cu\" line 3 includes \"gone.cuh\", which " +
            "is neither beside it, nor in \"" + folder.path() + "\", nor one of Kiln's own files");
  CHECK(folder.error("no.cu") == "headers_from: no file \"no.cu\" in \"" + folder.path() + "\"");
  fs::create_directory(folder.path("folder.cuh"));
  folder.write("dir.cu", "#include \"folder.cuh\"\n");
  CHECK(folder.error("dir.cu").find("includes \"folder.cuh\", which is neither") !=
        std::string::npos);
  CHECK_THROWS_WITH(headers_from(folder.path("nowhere"), "op.cu"),
                    "headers_from: cannot read directory \"" + folder.path("nowhere") +
                        "\": No such file or directory");
}

TEST_CASE("An include of a macro is an error that says so") {
  const Folder folder;
  folder.write("op.cu", "#define H \"x.cuh\"\n#include H\n");
  CHECK(folder.error("op.cu").find("line 2: the file of an #include must be written out") !=
        std::string::npos);
}

TEST_CASE("Includes in comments, strings and under #if 0 need no file and stay as they are") {
  const Folder folder;
  const std::string text =
      "// #include \"gone1.cuh\"\n/*\n#include \"gone2.cuh\"\n*/\nconst char* s = R\"(\n#include "
      "\"gone3.cuh\"\n)\";\n#if 0\n#include \"gone4.cuh\"\n#endif\n";
  folder.write("op.cu", text);
  const std::vector<SourceFile> files = folder.read("op.cu");
  REQUIRE(names(files) == Names{"op.cu"});
  CHECK(files[0].text == text);
}

TEST_CASE("A header that is probed for is read and renamed like an included one") {
  const Folder folder;
  folder.write("op.cu", "#include \"a/a.cuh\"\n#if __has_include(\"none.cuh\")\n#endif\n");
  folder.write("a/a.cuh", "#if __has_include(\"tuned.cuh\")\n#include \"tuned.cuh\"\n#endif\n");
  folder.write("a/tuned.cuh", "");
  const std::vector<SourceFile> files = folder.read("op.cu");
  REQUIRE(names(files) == Names{"op.cu", "a/a.cuh", "a/tuned.cuh"});
  CHECK(files[0].text == "#include \"a/a.cuh\"\n#if __has_include(\"none.cuh\")\n#endif\n");
  CHECK(files[1].text == "#if __has_include(\"a/tuned.cuh\")\n#include \"a/tuned.cuh\"\n#endif\n");
}

TEST_CASE("Angle-bracket includes are left alone, even when such a file is there") {
  const Folder folder;
  folder.write("op.cu", "#include <x.cuh>\n#include <cuda_bf16.h>\n");
  folder.write("x.cuh", "");
  const std::vector<SourceFile> files = folder.read("op.cu");
  REQUIRE(names(files) == Names{"op.cu"});
  CHECK(files[0].text == "#include <x.cuh>\n#include <cuda_bf16.h>\n");
}

TEST_CASE(
    "Kiln's own headers are left alone, and a file of the same name in the folder is another") {
  const Folder folder;
  folder.write("op.cu", "#include \"prelude/types.cuh\"\n#include \"prelude/bf16.cuh\"\n");
  folder.write("prelude/types.cuh", "// mine\n");
  const std::vector<SourceFile> files = folder.read("op.cu");
  REQUIRE(names(files) == Names{"op.cu", "2/prelude/types.cuh"});
  CHECK(files[0].text == "#include \"2/prelude/types.cuh\"\n#include \"prelude/bf16.cuh\"\n");
  CHECK(files[1].text == "// mine\n");
}

TEST_CASE("Files outside the directory get names that do not tell where they lie") {
  const Folder folder;
  folder.write("ops/op.cu",
               "#include \"../one/x.cuh\"\n#include \"" + folder.path("two/x.cuh") + "\"\n");
  folder.write("one/x.cuh", "#include \"../ops/own.cuh\"\n");
  folder.write("two/x.cuh", "");
  folder.write("ops/own.cuh", "");
  const std::vector<SourceFile> files = headers_from(folder.path("ops"), "op.cu");
  CHECK(names(files) == Names{"op.cu", "outside/x.cuh", "2/outside/x.cuh", "own.cuh"});
  CHECK(files[0].text == "#include \"outside/x.cuh\"\n#include \"2/outside/x.cuh\"\n");
  CHECK(files[1].text == "#include \"own.cuh\"\n");
}

TEST_CASE("The same files in another place give the same names and texts (field report 53)") {
  const Folder one;
  const Folder other;
  for (const Folder* folder : {&one, &other}) {
    folder->write("ops/op.cu", "#include \"../x.cuh\"\n#include \"y.cuh\"\n");
    folder->write("x.cuh", "");
    folder->write("ops/y.cuh", "#include \"" + folder->path("x.cuh") + "\"\n");
  }
  fs::last_write_time(other.path("x.cuh"), fs::file_time_type::min());
  const std::vector<SourceFile> first = headers_from(one.path("ops"), "op.cu");
  const std::vector<SourceFile> second = headers_from(other.path("ops") + "/../ops/", "op.cu");
  REQUIRE(names(first) == names(second));
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i].text == second[i].text);
  }
}

TEST_CASE("An entry in a folder below is named by its path, and includes resolve beside it") {
  const Folder folder;
  folder.write("sub/op.cu", "#include \"x.cuh\"\n");
  folder.write("sub/x.cuh", "");
  CHECK(names(folder.read("sub/op.cu")) == Names{"sub/op.cu", "sub/x.cuh"});
  CHECK(names(folder.read("./sub/op.cu")) == Names{"sub/op.cu", "sub/x.cuh"});
}

TEST_CASE("What headers_from read can be registered") {
  const Folder folder;
  folder.write("sample.cu", "#include \"a/x.cuh\"\n#include \"prelude/types.cuh\"\n");
  folder.write("a/x.cuh", "#include \"y.cuh\"\n");
  folder.write("a/y.cuh", "");
  Op op = test::sample_op();
  op.sources = folder.read("sample.cu");
  registry::Registry registry;
  CHECK(registry.add(std::move(op)));
}

}  // namespace
}  // namespace kiln
