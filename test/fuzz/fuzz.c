/* Cuts an input into texts, for all fuzz targets. */
#include "test/fuzz/fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "service/log/log.h"

char *fuzz_text(struct fuzz_input *input, char end, size_t *length_out)
{
    const uint8_t *stop = input->left > 0 ? memchr(input->at, end, input->left) : NULL;
    size_t length = stop ? (size_t)(stop - input->at) : input->left;
    char *text = malloc(length + 1);
    if (!text)
        abort();
    if (length > 0)
        memcpy(text, input->at, length);
    text[length] = '\0';
    size_t used = length + (stop != NULL);
    input->at += used;
    input->left -= used;
    if (length_out)
        *length_out = length;
    return text;
}

unsigned fuzz_byte(struct fuzz_input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

void fuzz_silence(void)
{
    log_setup(LOG_DEBUG, open("/dev/null", O_WRONLY | O_CLOEXEC));
}
