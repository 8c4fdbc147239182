#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <elf.h>

namespace kiln::test {

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline Elf64_Ehdr elf_header(std::uint16_t machine, unsigned char abi, std::uint32_t flags) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_OSABI] = abi;
  header.e_machine = machine;
  header.e_flags = flags;
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  return header;
}

/// What a made-up cubin holds.
struct CubinRecipe {
  std::uint16_t machine = 190;
  unsigned char abi = 0x41;
  std::uint32_t flags = 0x6005a04;                 // sm_90, as NVRTC 13.0 writes it.
  std::string command_line = "-v  -arch sm_90a ";  // Empty: no .note.nv.tkinfo.
  std::string symbol = "kernel";
  unsigned char symbol_type = STT_FUNC;
  std::uint16_t symbol_section = 1;
};

/// A small image with the sections that a cubin's check reads.
inline std::string make_cubin(const CubinRecipe& recipe) {
  std::string names(1, '\0');
  std::string image(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](std::string_view name, std::uint32_t type, std::string_view content,
                       std::uint32_t link = 0) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<std::uint32_t>(names.size());
    section.sh_type = type;
    section.sh_offset = image.size();
    section.sh_size = content.size();
    section.sh_link = link;
    names.append(name).push_back('\0');
    image.append(content);
    sections.push_back(section);
  };
  add(".text." + recipe.symbol, SHT_PROGBITS, std::string(64, '\x5a'));
  add(".strtab", SHT_STRTAB, std::string(1, '\0') + recipe.symbol + '\0');
  std::string symbols(sizeof(Elf64_Sym), '\0');
  Elf64_Sym symbol{};
  symbol.st_name = 1;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, recipe.symbol_type);
  symbol.st_shndx = recipe.symbol_section;
  append(symbols, symbol);
  add(".symtab", SHT_SYMTAB, symbols, 2);
  if (!recipe.command_line.empty()) {
    add(".note.nv.tkinfo", SHT_NOTE, "ptxas" + std::string(1, '\0') + recipe.command_line + '\0');
  }
  names.append(".shstrtab").push_back('\0');
  Elf64_Shdr last{};
  last.sh_type = SHT_STRTAB;
  last.sh_offset = image.size();
  last.sh_size = names.size();
  image.append(names);
  sections.push_back(last);

  Elf64_Ehdr header = elf_header(recipe.machine, recipe.abi, recipe.flags);
  header.e_shoff = image.size();
  header.e_shnum = static_cast<std::uint16_t>(sections.size());
  header.e_shstrndx = static_cast<std::uint16_t>(sections.size() - 1);
  for (const Elf64_Shdr& section : sections) {
    append(image, section);
  }
  std::memcpy(image.data(), &header, sizeof(header));
  return image;
}

/// A shared library as far as its headers go. Its build id lies in a note of the given alignment;
/// an empty id leaves the note out.
/// Its one loadable segment is `loaded_bytes` long, from the beginning of the file.
inline std::string make_library(std::string_view id, std::uint64_t alignment = 4,
                                std::uint64_t loaded_bytes = 0) {
  Elf64_Ehdr header = elf_header(EM_X86_64, ELFOSABI_NONE, 0);
  header.e_phoff = sizeof(Elf64_Ehdr);
  header.e_phnum = id.empty() ? 1 : 2;
  std::string notes;
  append(notes, Elf64_Nhdr{4, static_cast<std::uint32_t>(id.size()), NT_GNU_BUILD_ID});
  notes.append("GNU", 4).append(id);
  Elf64_Phdr segment{};
  segment.p_type = PT_NOTE;
  segment.p_offset = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr);
  segment.p_filesz = notes.size();
  segment.p_align = alignment;
  Elf64_Phdr loaded{};
  loaded.p_type = PT_LOAD;
  loaded.p_filesz = loaded_bytes;
  std::string image;
  append(image, header);
  append(image, loaded);
  append(image, segment);
  return image + notes;
}

}  // namespace kiln::test
