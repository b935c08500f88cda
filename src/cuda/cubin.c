/* SPDX-License-Identifier: Apache-2.0 */
#include "cubin.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*
 * Section .nv.info is a list of attributes: a byte for the form, one for what it is, and two for the length of what
 * follows, if anything does. The one of interest is the frame size: an index into the symbol table, then the bytes.
 */
enum { FORM_SIZED = 4, FRAME_SIZE = 0x11 };

typedef struct cubin {
  const unsigned char *data;
  size_t size;
  Elf64_Ehdr header;
} cubin;

static bool read_at(const cubin *c, uint64_t at, void *value, size_t size) {
  if (at > c->size || size > c->size - at) return false;
  memcpy(value, c->data + at, size);
  return true;
}

static bool read_section(const cubin *c, uint64_t index, Elf64_Shdr *section) {
  return index < c->header.e_shnum &&
         read_at(c, c->header.e_shoff + index * sizeof *section, section, sizeof *section);
}

/* The string at `at` of the string table in section `table`; NULL if it does not end within the file. */
static const char *read_string(const cubin *c, uint64_t table, uint64_t at) {
  Elf64_Shdr section;
  if (!read_section(c, table, &section) || section.sh_offset + at >= c->size) return NULL;
  const char *text = (const char *)c->data + section.sh_offset + at;
  return memchr(text, 0, c->size - section.sh_offset - at) ? text : NULL;
}

static bool find_section(const cubin *c, const char *name, Elf64_Shdr *section) {
  for (uint64_t i = 0; read_section(c, i, section); i++) {
    const char *text = read_string(c, c->header.e_shstrndx, section->sh_name);
    if (text && strcmp(text, name) == 0) return true;
  }
  return false;
}

static bool read_function(const cubin *c, const Elf64_Shdr *symbols, uint64_t at,
                          uc_cubin_function *f) {
  uint32_t value[2];
  Elf64_Sym symbol;
  if (!read_at(c, at, value, sizeof value) ||
      !read_at(c, symbols->sh_offset + value[0] * sizeof symbol, &symbol, sizeof symbol))
    return false;
  const char *name = read_string(c, symbols->sh_link, symbol.st_name);
  if (!name) return false;
  snprintf(f->name, sizeof f->name, "%s", name);
  f->frame = value[1];
  return true;
}

int uc_cubin_functions(const void *data, size_t size, uc_cubin_function *function, int capacity) {
  cubin c = {.data = data, .size = size};
  Elf64_Shdr info, symbols;
  if (!read_at(&c, 0, &c.header, sizeof c.header) ||
      memcmp(c.header.e_ident, ELFMAG, SELFMAG) != 0 || !find_section(&c, ".nv.info", &info) ||
      !find_section(&c, ".symtab", &symbols))
    return -1;
  int count = 0;
  uint64_t at = info.sh_offset, end = at + info.sh_size;
  while (at < end) {
    unsigned char kind[2];
    uint16_t length;
    if (!read_at(&c, at, kind, sizeof kind) || !read_at(&c, at + 2, &length, sizeof length))
      return -1;
    at += 4;
    if (kind[0] != FORM_SIZED) continue;
    if (kind[1] == FRAME_SIZE &&
        (count == capacity || !read_function(&c, &symbols, at, &function[count++])))
      return -1;
    at += length;
  }
  return count;
}
