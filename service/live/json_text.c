/* Texts of the system and of other programs as JSON, which takes only UTF-8. */
#include "service/live/json_text.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void json_text_clean(char *text)
{
    json_t *string = json_string(text); /* NULL for a text that is no UTF-8 */
    for (char *at = text; !string && *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    json_decref(string);
}

json_t *json_text(const char *text)
{
    char *clean = strdup(text);
    if (!clean)
        abort();
    json_text_clean(clean);
    json_t *string = json_string(clean);
    if (!string)
        abort();
    free(clean);
    return string;
}
