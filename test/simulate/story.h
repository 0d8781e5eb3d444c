/* Tells the events of a schedule in lines that a reader can follow. */
#ifndef SIMULATE_STORY_H
#define SIMULATE_STORY_H

#include <stdbool.h>
#include <stdint.h>

/* True while stories are told: the schedules of a search go untold, for speed. */
extern bool story_told;

#define story(...)                                                                                 \
    do                                                                                             \
        if (__builtin_expect(story_told, 0))                                                       \
            story_line(__VA_ARGS__);                                                               \
    while (0)

/* Who says what time it is, in ns since the schedule began, and whose turn; "": nobody's. */
void story_begin(int64_t (*time_ns)(void), const char *(*actor)(void));

/* Prints a line with the virtual time and the actor whose turn it is. */
void story_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Leaves out what repeats itself, until it is told to go on. */
void story_pause(bool paused);

#endif
