/* fold OBJECT: resolves what a relocatable object knows of itself.
 *
 * In: an x86-64 object with one section of each kind. Out: the same file, in which
 *
 *   - every distance from a section into the same section is written where it is used, and its
 *     relocation is gone: `ld -r` leaves 24 bytes for each call of one function by another;
 *   - an instruction that takes the address of such a place from the global offset table has it
 *     from the distance, as the x86-64 ABI ("optimize GOTPCRELX relocations") lets linkers do;
 *   - what still needs one names a section and a place in it, so that the names of constants go.
 *
 * An object of another machine stays as it is. The file keeps its length: objcopy, which runs next,
 * packs it. Only local symbols are resolved: a global one may be another library's in the end.
 */
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char *file;
static size_t file_bytes;

enum { NO_PLACE = 1 };

static void stop(const char *why) {
    fprintf(stderr, "fold: %s\n", why);
    exit(1);
}

/* `bytes` bytes of the file from `offset` on. */
static void *part(uint64_t offset, uint64_t bytes) {
    if (offset > file_bytes || bytes > file_bytes - offset)
        stop("the object is cut");
    return file + offset;
}

/* Makes the instruction that reads an address through the global offset table, in its last four
 * bytes, one that knows the distance. Returns how far from there it goes, NO_PLACE for an
 * instruction of another kind. None but a call and a jump has FF 15 or FF 25 there, and none but a load REX.W, 8B
 * and a register with RIP. */
static int relax(unsigned char *displacement) {
    unsigned char *code = displacement - 2;

    if (code[0] == 0xFF && code[1] == 0x15) { /* call *name(%rip): addr32 call name */
        code[0] = 0x67;
        code[1] = 0xE8;
        return 0;
    }
    if (code[0] == 0xFF && code[1] == 0x25) { /* jmp *name(%rip): jmp name, nop */
        code[0] = 0xE9;
        code[5] = 0x90;
        return -1;
    }
    if ((code[-1] == 0x48 || code[-1] == 0x4C) && code[0] == 0x8B && (code[1] & 0xC7) == 0x05) {
        code[0] = 0x8D; /* mov name(%rip), register: lea */
        return 0;
    }
    return NO_PLACE;
}

/* Whether the relocation is a distance within its own section; then it is written. */
static int resolve(Elf64_Rela *entry, const Elf64_Sym *symbols, uint64_t symbol_count,
                   uint64_t section, const Elf64_Shdr *target) {
    const uint64_t number = ELF64_R_SYM(entry->r_info);
    const uint64_t type = ELF64_R_TYPE(entry->r_info);
    const int is_distance = type == R_X86_64_PC32 || type == R_X86_64_PLT32;
    const int is_table = type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX ||
                         type == R_X86_64_REX_GOTPCRELX;
    const Elf64_Sym *symbol;
    unsigned char *place;
    uint64_t at;
    int64_t distance;
    int32_t word;
    int shift;

    if (!is_distance && !is_table && type != R_X86_64_64)
        return 0;
    if (number >= symbol_count)
        stop("a relocation names no symbol");
    symbol = &symbols[number];
    if (ELF64_ST_BIND(symbol->st_info) != STB_LOCAL || symbol->st_shndx == SHN_UNDEF)
        return 0;
    if (type == R_X86_64_64 || (is_distance && symbol->st_shndx != section)) {
        for (at = 0; at < symbol_count; at++)
            if (ELF64_ST_TYPE(symbols[at].st_info) == STT_SECTION &&
                symbols[at].st_shndx == symbol->st_shndx) {
                entry->r_addend += (int64_t)(symbol->st_value - symbols[at].st_value);
                entry->r_info = ELF64_R_INFO(at, is_distance ? R_X86_64_PC32 : R_X86_64_64);
                break;
            }
        return 0;
    }
    if (symbol->st_shndx != section)
        return 0;
    distance = (int64_t)symbol->st_value + entry->r_addend - (int64_t)entry->r_offset;
    if (distance < INT32_MIN || distance > INT32_MAX || target->sh_type != SHT_PROGBITS ||
        entry->r_offset < 3 || entry->r_offset > target->sh_size ||
        target->sh_size - entry->r_offset < sizeof word)
        stop("a relocation does not fit");
    place = part(target->sh_offset + entry->r_offset, sizeof word);
    shift = is_table ? relax(place) : 0;
    if (shift == NO_PLACE)
        return 0;
    word = (int32_t)(distance - shift);
    memcpy(place + shift, &word, sizeof word);
    return 1;
}

int main(int argc, char **argv) {
    FILE *stream;
    const Elf64_Ehdr *header;
    Elf64_Shdr *sections;
    uint64_t number, at, resolved = 0;
    long length;

    if (argc != 2)
        stop("usage: fold OBJECT");
    stream = fopen(argv[1], "r+b");
    if (stream == NULL || fseek(stream, 0, SEEK_END) != 0 || (length = ftell(stream)) < 0)
        stop("the object cannot be read");
    file_bytes = (size_t)length;
    file = malloc(file_bytes + 1);
    rewind(stream);
    if (file == NULL || fread(file, 1, file_bytes, stream) != file_bytes)
        stop("the object cannot be read");

    header = part(0, sizeof *header);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_type != ET_REL)
        stop("this is no object");
    if (header->e_machine != EM_X86_64)
        return 0;
    sections = part(header->e_shoff, (uint64_t)header->e_shnum * sizeof *sections);
    for (number = 0; number < header->e_shnum; number++) {
        Elf64_Shdr *list = &sections[number];
        const Elf64_Shdr *table;
        Elf64_Rela *entries;
        uint64_t kept = 0;
        if (list->sh_type != SHT_RELA)
            continue;
        if (list->sh_link >= header->e_shnum || list->sh_info >= header->e_shnum)
            stop("a section names no section");
        table = &sections[list->sh_link];
        entries = part(list->sh_offset, list->sh_size);
        for (at = 0; at < list->sh_size / sizeof *entries; at++)
            if (!resolve(&entries[at], part(table->sh_offset, table->sh_size),
                         table->sh_size / sizeof(Elf64_Sym), list->sh_info,
                         &sections[list->sh_info]))
                entries[kept++] = entries[at];
        resolved += at - kept;
        list->sh_size = kept * sizeof *entries;
    }
    rewind(stream);
    if (fwrite(file, 1, file_bytes, stream) != file_bytes || fclose(stream) != 0)
        stop("the object cannot be written");
    printf("%llu\n", (unsigned long long)resolved);
    return 0;
}
