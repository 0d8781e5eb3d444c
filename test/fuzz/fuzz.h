/* Shared by the fuzz targets: the entry that libFuzzer calls, and an input cut into texts. */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libFuzzer's, or replay.c's, for each input; a target defines it. Returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The rest of an input. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

/* Copies the next text, up to `end` or the input's end, with a NUL behind it, into memory of
 * exactly that size, so that reading past it is found; *length_out, unless NULL, does not count a
 * NUL within it. The caller frees it. Empty once the input is used up. */
char *fuzz_text(struct fuzz_input *input, char end, size_t *length_out);

/* The next byte; 0 once the input is used up. */
unsigned fuzz_byte(struct fuzz_input *input);

/* The log writes nothing. Once, before anything is logged. */
void fuzz_silence(void);

#endif
