#include "runtime/nvrtc/elf.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/key.hpp"

namespace kiln::runtime {
namespace {

// Not in every distribution's elf.h.
constexpr std::uint16_t kMachineCuda = 190;
constexpr unsigned char kOsAbiCudaV1 = 0x33;  // The architecture is the low byte of e_flags.
constexpr unsigned char kOsAbiCudaV2 = 0x41;  // It is the second byte.

// The part of `bytes` at `offset`, or nothing when it does not lie within.
std::optional<std::string_view> slice(std::string_view bytes, std::uint64_t offset,
                                      std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) {
    return std::nullopt;
  }
  return bytes.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// A structure copied out, since nothing in an arbitrary image need be aligned.
template <class T>
std::optional<T> read(std::string_view bytes, std::uint64_t offset) {
  const auto part = slice(bytes, offset, sizeof(T));
  if (!part) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, part->data(), sizeof(T));
  return value;
}

std::string_view text_at(std::string_view strings, std::uint64_t offset) {
  const auto tail = offset < strings.size() ? strings.substr(static_cast<std::size_t>(offset)) : "";
  const std::size_t end = tail.find('\0');
  return end == std::string_view::npos ? std::string_view() : tail.substr(0, end);
}

std::optional<Elf64_Ehdr> read_header(std::string_view image) {
  const auto header = read<Elf64_Ehdr>(image, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) {
    return std::nullopt;
  }
  return header;
}

// The section headers of an image. Every accessor is safe for any bytes.
class Sections {
 public:
  Sections(std::string_view image, const Elf64_Ehdr& header) : image_(image), header_(header) {
    if (const auto names = section(header.e_shstrndx)) {
      names_ = content(*names);
    }
  }

  std::size_t count() const {
    return header_.e_shentsize == sizeof(Elf64_Shdr) ? header_.e_shnum : 0;
  }
  std::optional<Elf64_Shdr> section(std::size_t index) const {
    const std::uint64_t offset = index * sizeof(Elf64_Shdr);
    if (index >= count() || header_.e_shoff > image_.size()) {
      return std::nullopt;
    }
    return read<Elf64_Shdr>(image_, header_.e_shoff + offset);
  }
  std::string_view content(const Elf64_Shdr& section) const {
    return section.sh_type == SHT_NOBITS
               ? std::string_view()
               : slice(image_, section.sh_offset, section.sh_size).value_or(std::string_view());
  }
  std::optional<Elf64_Shdr> find(std::string_view name) const {
    for (std::size_t i = 0; i < count(); ++i) {
      const auto candidate = section(i);
      if (candidate && text_at(names_, candidate->sh_name) == name) {
        return candidate;
      }
    }
    return std::nullopt;
  }

 private:
  std::string_view image_;
  const Elf64_Ehdr& header_;
  std::string_view names_;
};

bool defines_function(const Sections& sections, std::string_view name) {
  for (std::size_t i = 0; i < sections.count(); ++i) {
    const auto table = sections.section(i);
    if (!table || table->sh_type != SHT_SYMTAB) {
      continue;
    }
    const auto strings = sections.section(table->sh_link);
    const std::string_view symbols = sections.content(*table);
    for (std::uint64_t at = 0; strings && at < symbols.size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = read<Elf64_Sym>(symbols, at);
      if (symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
          text_at(sections.content(*strings), symbol->st_name) == name) {
        return true;
      }
    }
  }
  return false;
}

// The word after "-arch" in the command line that ptxas leaves in the image, such as "sm_90a".
std::string_view recorded_target(const Sections& sections) {
  const auto note = sections.find(".note.nv.tkinfo");
  if (!note) {
    return {};
  }
  constexpr std::string_view kOption = "-arch";
  std::string_view text = sections.content(*note);
  const std::size_t found = text.find(kOption);
  if (found == std::string_view::npos) {
    return {};
  }
  text.remove_prefix(found + kOption.size());
  text.remove_prefix(std::min(text.find_first_not_of(" ="), text.size()));
  return text.substr(0, text.find_first_of(std::string_view(" \0", 2)));
}

std::optional<int> architecture(const Elf64_Ehdr& header) {
  switch (header.e_ident[EI_OSABI]) {
    case kOsAbiCudaV1:
      return static_cast<int>(header.e_flags & 0xffu);
    case kOsAbiCudaV2:
      return static_cast<int>((header.e_flags >> 8) & 0xffu);
    default:
      return std::nullopt;
  }
}

std::string build_id_in_notes(std::string_view notes, std::uint64_t alignment) {
  const auto padded = [alignment](std::uint64_t size) {
    const std::uint64_t unit = alignment == 8 ? 8 : 4;
    return (size + unit - 1) / unit * unit;
  };
  std::uint64_t at = 0;
  while (const auto note = read<Elf64_Nhdr>(notes, at)) {
    const std::uint64_t description_at = at + padded(sizeof(Elf64_Nhdr) + note->n_namesz);
    const auto name = slice(notes, at + sizeof(Elf64_Nhdr), note->n_namesz);
    const auto description = slice(notes, description_at, note->n_descsz);
    if (!name || !description) {
      return {};
    }
    if (note->n_type == NT_GNU_BUILD_ID && *name == std::string_view("GNU\0", 4)) {
      std::string hex;
      for (const char byte : *description) {
        hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
      }
      return hex;
    }
    at = description_at + padded(note->n_descsz);
  }
  return {};
}

// A file mapped for reading; empty when it is.
class MappedFile {
 public:
  static Result<MappedFile> open(const std::string& path) {
    const auto failed = [&path] {
      return fail(ErrorCode::kIo,
                  fmt::format("cannot read {}: {}", path, std::generic_category().message(errno)));
    };
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      return failed();
    }
    struct stat status {};
    void* bytes = MAP_FAILED;
    if (::fstat(file, &status) == 0) {
      bytes = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE,
                     file, 0);
    }
    const int mapping_error = errno;
    ::close(file);
    errno = mapping_error;
    if (bytes == MAP_FAILED) {
      return failed();
    }
    return MappedFile(static_cast<const char*>(bytes), static_cast<std::size_t>(status.st_size));
  }
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile() {
    if (!bytes_.empty()) {
      ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
    }
  }
  std::string_view bytes() const noexcept { return bytes_; }

 private:
  MappedFile(const char* bytes, std::size_t size) noexcept : bytes_(bytes, size) {}
  std::string_view bytes_;
};

// A file cut short, by a download or a full disk, would kill the process inside the loader, which
// maps what the program headers say.
bool holds_its_segments(std::string_view image) {
  const auto header = read_header(image);
  for (std::uint64_t i = 0; header && i < header->e_phnum; ++i) {
    const auto segment = header->e_phoff > image.size()
                             ? std::nullopt
                             : read<Elf64_Phdr>(image, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment ||
        (segment->p_type == PT_LOAD && !slice(image, segment->p_offset, segment->p_filesz))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string build_id(std::string_view image) {
  const auto header = read_header(image);
  if (!header || header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phoff > image.size()) {
    return {};
  }
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(image, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment || segment->p_type != PT_NOTE) {
      continue;
    }
    const auto notes = slice(image, segment->p_offset, segment->p_filesz);
    std::string id = build_id_in_notes(notes.value_or(std::string_view()), segment->p_align);
    if (!id.empty()) {
      return id;
    }
  }
  return {};
}

Result<std::string> library_id(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file) {
    return tl::unexpected(file.error());
  }
  if (!read_header(file->bytes())) {
    return fail(ErrorCode::kIo, path + " is not a 64-bit shared library");
  }
  if (!holds_its_segments(file->bytes())) {
    return fail(ErrorCode::kIo,
                fmt::format("{} is cut short: it has {} bytes, less than its program headers say",
                            path, file->bytes().size()));
  }
  std::string id = build_id(file->bytes());
  return id.empty() ? "xxh3:" + cache::digest(file->bytes()).hex() : id;
}

bool file_contains(const std::string& path, std::string_view text) {
  const auto file = MappedFile::open(path);
  return file && file->bytes().find(text) != std::string_view::npos;
}

Status check_cubin(std::string_view image, std::string_view symbol, const Target& target) {
  const auto reject = [](const std::string& why) {
    return fail(ErrorCode::kCompileFailed, "the compile result cannot be used: " + why);
  };
  if (image.empty()) {
    return reject("NVRTC reported success, but returned no cubin (0 bytes)");
  }
  const auto header = read_header(image);
  if (!header) {
    return reject(fmt::format("its {} bytes are no 64-bit ELF image", image.size()));
  }
  if (header->e_machine != kMachineCuda) {
    return reject(fmt::format("it is an ELF image for machine {}, not for CUDA ({})",
                              header->e_machine, kMachineCuda));
  }
  const auto compiled_for = architecture(*header);
  if (!compiled_for) {
    return reject(
        fmt::format("its ELF ABI {:#x} is unknown, so that its architecture cannot be "
                    "read",
                    header->e_ident[EI_OSABI]));
  }
  if (*compiled_for != target.compute_capability()) {
    return reject(fmt::format("it is for sm_{}, not for {}", *compiled_for, to_string(target)));
  }
  const Sections sections(image, *header);
  const std::string_view recorded = recorded_target(sections);
  if (!recorded.empty() && recorded != to_string(target)) {
    return reject(fmt::format("it says it is for {}, not for {}", recorded, to_string(target)));
  }
  if (!defines_function(sections, symbol)) {
    return reject(fmt::format("it does not hold the kernel {}", symbol));
  }
  return {};
}

}  // namespace kiln::runtime
