/* Coroutines: functions that stop in the middle and go on later, each on a stack of its own.
 *
 * why_jumps: swapcontext saves and restores the signal mask by system calls, which would be half of
 * a schedule's time. So a context begins a coroutine, and from then on _setjmp and _longjmp switch.
 * Fortified sources refuse jumps between stacks, hence the undefinition below. */
#undef _FORTIFY_SOURCE
#define _FORTIFY_SOURCE 0

#include "test/simulate/machine/coroutine.h"

#include <assert.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

enum { COROUTINES_MAX = 128, STACK_SIZE = 1 << 20, GUARD_SIZE = 1 << 12 };

struct coroutine {
    void (*body)(void *argument);
    void *argument;
    void *stack; /* kept for the next coroutine in this place */
    bool used, begun;
    jmp_buf inside;
};

static struct coroutine coroutines[COROUTINES_MAX];
static struct coroutine *present;
static jmp_buf outside;
static ucontext_t start_context;

/* The sanitizer must know which stack is in use. */
#ifdef __SANITIZE_ADDRESS__
static void *outside_fake;
static const void *outside_bottom;
static size_t outside_size;
#define ENTER(coroutine)                                                                           \
    __sanitizer_start_switch_fiber(&outside_fake, (coroutine)->stack, STACK_SIZE)
#define ENTERED() __sanitizer_finish_switch_fiber(NULL, &outside_bottom, &outside_size)
#define LEAVE(fake) __sanitizer_start_switch_fiber(fake, outside_bottom, outside_size)
#define LEFT() __sanitizer_finish_switch_fiber(outside_fake, NULL, NULL)
#else
#define ENTER(coroutine) ((void)0)
#define ENTERED() ((void)0)
#define LEAVE(fake) ((void)0)
#define LEFT() ((void)0)
#endif

static void *stack_make(void)
{
    char *memory = mmap(NULL, STACK_SIZE + GUARD_SIZE, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_SIZE, PROT_NONE) != 0)
        abort();
    return memory + GUARD_SIZE;
}

struct coroutine *coroutine_make(void (*body)(void *argument), void *argument)
{
    for (size_t i = 0; i < COROUTINES_MAX; i++) {
        struct coroutine *coroutine = &coroutines[i];
        if (coroutine->used)
            continue;
        if (!coroutine->stack)
            coroutine->stack = stack_make();
        coroutine->body = body;
        coroutine->argument = argument;
        coroutine->used = true;
        coroutine->begun = false;
        return coroutine;
    }
    abort();
}

static void start(void)
{
    ENTERED();
    present->body(present->argument);
    for (;;) /* it has ended: nobody resumes it with anything to do */
        coroutine_yield();
}

static void begin(struct coroutine *coroutine)
{
    coroutine->begun = true;
    if (getcontext(&start_context) != 0)
        abort();
    start_context.uc_stack.ss_sp = coroutine->stack;
    start_context.uc_stack.ss_size = STACK_SIZE;
    start_context.uc_link = NULL;
    makecontext(&start_context, start, 0);
    setcontext(&start_context);
    abort();
}

void coroutine_resume(struct coroutine *coroutine)
{
    assert(!present && coroutine->used);
    present = coroutine;
    ENTER(coroutine);
    if (_setjmp(outside) == 0) {
        if (coroutine->begun)
            _longjmp(coroutine->inside, 1);
        begin(coroutine);
    }
    LEFT();
    present = NULL;
}

void coroutine_yield(void)
{
    struct coroutine *self = present;
    assert(self);
#ifdef __SANITIZE_ADDRESS__
    void *fake = NULL;
    LEAVE(&fake);
    if (_setjmp(self->inside) == 0)
        _longjmp(outside, 1);
    __sanitizer_finish_switch_fiber(fake, &outside_bottom, &outside_size);
#else
    if (_setjmp(self->inside) == 0)
        _longjmp(outside, 1);
#endif
}

void coroutine_free(struct coroutine *coroutine)
{
    assert(coroutine->used && coroutine != present);
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(coroutine->stack, STACK_SIZE);
#endif
    coroutine->used = false;
}
