/* Lets a test program of the waiting functions run over the form for event loops: each call begins
 * an operation of a loop and waits for its event, which a thread of that loop takes. So one suite
 * tests both forms. */
#ifndef LOCK_TEST_LOOP_FORM_H
#define LOCK_TEST_LOOP_FORM_H

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "lock/seclock.h"

/* The loop of a client, and the thread that takes its events. */
struct loop_form {
    struct seclock_client *client;
    struct seclock_loop *loop;
    pid_t pid;
    pthread_t thread;
    pthread_mutex_t mutex; /* the loop belongs to whoever has it */
    pthread_cond_t on_lost_ended;
    int stop_fd;
    struct loop_form *next;
};

/* What the shim keeps of a handle: the context of its request. */
struct form_hold {
    struct loop_form *form;
    struct seclock_handle *handle;
    void (*on_lost)(struct seclock_handle *handle, void *context);
    void *context;
    bool in_on_lost;
    int ended_fd;
    enum seclock_result result;
    char error[256];
    struct form_hold *next;
};

static struct loop_form *loop_forms;
static struct form_hold *form_holds;
static pthread_mutex_t loop_forms_mutex = PTHREAD_MUTEX_INITIALIZER;

/* The mutex is held, but not during on_lost. */
static inline void form_take_events(struct loop_form *form)
{
    struct seclock_event event = SECLOCK_EVENT();
    while (seclock_loop_next(form->loop, &event)) {
        struct form_hold *hold = event.context;
        if (event.kind == SECLOCK_EVENT_LOST) {
            hold->in_on_lost = true;
            pthread_mutex_unlock(&form->mutex);
            if (hold->on_lost)
                hold->on_lost(event.handle, hold->context);
            pthread_mutex_lock(&form->mutex);
            hold->in_on_lost = false;
            pthread_cond_broadcast(&form->on_lost_ended);
            continue;
        }
        hold->result = event.result;
        snprintf(hold->error, sizeof hold->error, "%s", seclock_error());
        eventfd_write(hold->ended_fd, 1);
    }
}

static inline void *form_thread(void *argument)
{
    struct loop_form *form = argument;
    struct pollfd fds[] = {{.fd = seclock_loop_fd(form->loop), .events = POLLIN},
                           {.fd = form->stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 || fds[1].revents == 0) {
        pthread_mutex_lock(&form->mutex);
        form_take_events(form);
        pthread_mutex_unlock(&form->mutex);
    }
    return NULL;
}

static inline struct loop_form *form_of(struct seclock_client *client)
{
    sigset_t all, before;
    pthread_mutex_lock(&loop_forms_mutex);
    struct loop_form *form = loop_forms;
    while (form && (form->client != client || form->pid != getpid()))
        form = form->next;
    if (!form) {
        form = calloc(1, sizeof *form);
        form->client = client;
        form->pid = getpid();
        form->stop_fd = eventfd(0, EFD_CLOEXEC);
        pthread_mutex_init(&form->mutex, NULL);
        pthread_cond_init(&form->on_lost_ended, NULL);
        if (seclock_loop_open(client, &form->loop) != SECLOCK_OK)
            abort();
        sigfillset(&all); /* as the library's own threads */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_create(&form->thread, NULL, form_thread, form);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        form->next = loop_forms;
        loop_forms = form;
    }
    pthread_mutex_unlock(&loop_forms_mutex);
    return form;
}

static inline void form_close(struct seclock_client **client)
{
    pthread_mutex_lock(&loop_forms_mutex);
    struct loop_form **place = &loop_forms;
    while (*place && ((*place)->client != *client || (*place)->pid != getpid()))
        place = &(*place)->next;
    struct loop_form *form = *place;
    if (form) {
        *place = form->next;
        eventfd_write(form->stop_fd, 1);
        pthread_join(form->thread, NULL);
        seclock_loop_close(&form->loop);
        close(form->stop_fd);
        pthread_cond_destroy(&form->on_lost_ended);
        pthread_mutex_destroy(&form->mutex);
        free(form);
    }
    pthread_mutex_unlock(&loop_forms_mutex);
    seclock_close(client);
}

/* Waits for the event of what has begun; the loop's own thread takes events meanwhile, when it is
 * in on_lost. */
static inline enum seclock_result form_wait(struct form_hold *hold, int cancel_fd)
{
    struct loop_form *form = hold->form;
    bool own = pthread_equal(pthread_self(), form->thread);
    struct pollfd fds[] = {{.fd = hold->ended_fd, .events = POLLIN},
                           {.fd = cancel_fd > 0 ? cancel_fd : -1, .events = POLLIN},
                           {.fd = own ? seclock_loop_fd(form->loop) : -1, .events = POLLIN}};
    eventfd_t ended;
    while (poll(fds, 3, -1) < 0 || fds[0].revents == 0) {
        pthread_mutex_lock(&form->mutex);
        if (own)
            form_take_events(form);
        if (fds[1].revents)
            seclock_loop_cancel(form->loop, hold->handle);
        pthread_mutex_unlock(&form->mutex);
        if (fds[1].revents)
            fds[1].fd = -1;
    }
    eventfd_read(hold->ended_fd, &ended);
    return hold->result;
}

static inline struct form_hold *form_hold_of(const struct seclock_handle *handle)
{
    pthread_mutex_lock(&loop_forms_mutex);
    struct form_hold *hold = form_holds;
    while (hold && hold->handle != handle)
        hold = hold->next;
    pthread_mutex_unlock(&loop_forms_mutex);
    return hold && hold->form->pid == getpid() ? hold : NULL;
}

/* The reason of this thread's last call here, and the library's own at that time. */
static _Thread_local char form_error[256], form_plain_error[256];

static inline void form_keep_error(const char *error)
{
    snprintf(form_error, sizeof form_error, "%s", error);
    snprintf(form_plain_error, sizeof form_plain_error, "%s", seclock_error());
}

/* Waits for an on_lost that runs, as seclock_free does, unless it is this very thread's. */
static inline void form_free(struct seclock_handle **handle)
{
    pthread_mutex_lock(&loop_forms_mutex);
    struct form_hold **place = &form_holds;
    while (*place && (*place)->handle != *handle)
        place = &(*place)->next;
    struct form_hold *hold = *place;
    if (hold)
        *place = hold->next;
    pthread_mutex_unlock(&loop_forms_mutex);
    bool ours = hold && hold->form->pid == getpid();
    if (ours)
        pthread_mutex_lock(&hold->form->mutex);
    struct loop_form *form = ours ? hold->form : NULL;
    while (form && hold->in_on_lost && !pthread_equal(pthread_self(), form->thread))
        pthread_cond_wait(&form->on_lost_ended, &form->mutex);
    seclock_free(handle);
    if (form)
        pthread_mutex_unlock(&form->mutex);
    if (hold)
        close(hold->ended_fd);
    free(hold);
}

static inline enum seclock_result form_begin(struct seclock_client *client,
                                             struct seclock_request request, bool latch,
                                             struct seclock_handle **handle_out)
{
    struct loop_form *form = form_of(client);
    struct form_hold *hold = calloc(1, sizeof *hold);
    int cancel_fd = request.cancel_fd;
    *hold = (struct form_hold){.form = form,
                               .on_lost = request.on_lost,
                               .context = request.context,
                               .ended_fd = eventfd(0, EFD_CLOEXEC)};
    request.on_lost = NULL;
    request.context = hold;
    request.cancel_fd = 0;
    pthread_mutex_lock(&form->mutex);
    enum seclock_result result = latch ? seclock_loop_await(form->loop, &request, &hold->handle)
                                       : seclock_loop_acquire(form->loop, &request, &hold->handle);
    pthread_mutex_unlock(&form->mutex);
    form_keep_error(seclock_error());
    *handle_out = hold->handle;
    if (result != SECLOCK_OK) {
        close(hold->ended_fd);
        free(hold);
        return result;
    }
    pthread_mutex_lock(&loop_forms_mutex);
    hold->next = form_holds;
    form_holds = hold;
    pthread_mutex_unlock(&loop_forms_mutex);
    result = form_wait(hold, cancel_fd);
    form_keep_error(hold->error);
    if (result != SECLOCK_OK && result != SECLOCK_UNKNOWN)
        form_free(handle_out);
    return result;
}

/* A struct without its size is for the library to refuse, not for the shim to read. */
static inline enum seclock_result form_acquire(struct seclock_client *client,
                                               const struct seclock_request *request,
                                               struct seclock_handle **handle_out)
{
    if (request->size != sizeof *request)
        return seclock_acquire(client, request, handle_out);
    return form_begin(client, *request, false, handle_out);
}

static inline enum seclock_result form_await(struct seclock_client *client,
                                             const struct seclock_request *request)
{
    struct seclock_handle *handle;
    enum seclock_result result = form_begin(client, *request, true, &handle);
    form_free(&handle);
    return result == SECLOCK_BUSY ? SECLOCK_TIMEOUT : result;
}

/* Awaits what has begun; the form's mutex is held, and is not any more. */
static inline enum seclock_result form_end(struct form_hold *hold, enum seclock_result begun)
{
    form_keep_error(seclock_error());
    pthread_mutex_unlock(&hold->form->mutex);
    if (begun != SECLOCK_OK)
        return begun;
    enum seclock_result result = form_wait(hold, 0);
    form_keep_error(hold->error);
    return result;
}

static inline enum seclock_result form_do(struct seclock_handle *handle,
                                          enum seclock_result (*begin)(struct seclock_loop *,
                                                                       struct seclock_handle *),
                                          enum seclock_result (*plain)(struct seclock_handle *))
{
    struct form_hold *hold = form_hold_of(handle);
    if (!hold)
        return plain(handle);
    pthread_mutex_lock(&hold->form->mutex);
    return form_end(hold, begin(hold->form->loop, handle));
}

static inline enum seclock_result form_renew(struct seclock_handle *handle)
{
    return form_do(handle, seclock_loop_renew, seclock_renew);
}

/* What has no loop, or begins nothing there, is for the library to refuse. */
static inline enum seclock_result form_proclaim(struct seclock_handle *handle, const char *value)
{
    struct form_hold *hold = form_hold_of(handle);
    if (!hold || seclock_fence(handle) == 0)
        return seclock_proclaim(handle, value);
    pthread_mutex_lock(&hold->form->mutex);
    return form_end(hold, seclock_loop_proclaim(hold->form->loop, handle, value));
}

static inline enum seclock_result form_release(struct seclock_handle *handle)
{
    return form_do(handle, seclock_loop_release, seclock_release);
}

/* As seclock_campaign, which has no form for loops: an acquisition and a proclamation. */
static inline enum seclock_result form_campaign(struct seclock_client *client,
                                                const struct seclock_request *request,
                                                const char *value,
                                                struct seclock_handle **handle_out)
{
    char why[256];
    bool wrong = !value || strlen(value) >= SECLOCK_LEADER_VALUE_MAX ||
                 request->mode == SECLOCK_MODE_READ || request->limit > 0;
    if (wrong || request->kind == SECLOCK_KIND_RED || request->kind == SECLOCK_KIND_GET_LOCK ||
        request->kind == SECLOCK_KIND_SEMAPHORE || request->kind == SECLOCK_KIND_PERMIT) {
        enum seclock_result refused = seclock_campaign(client, request, value, handle_out);
        form_keep_error(seclock_error());
        return refused;
    }
    enum seclock_result result = form_acquire(client, request, handle_out);
    if (result == SECLOCK_OK)
        result = form_proclaim(*handle_out, value);
    if (result == SECLOCK_FAILED || result == SECLOCK_LOST) {
        snprintf(why, sizeof why, "%s", form_error);
        if (*handle_out)
            form_release(*handle_out);
        form_free(handle_out);
        form_keep_error(why);
        return SECLOCK_FAILED;
    }
    return result;
}

/* The reason of this thread's last failure, in a loop or not. */
static inline const char *form_reason(void)
{
    return strcmp(seclock_error(), form_plain_error) == 0 ? form_error : seclock_error();
}

#define seclock_acquire form_acquire
#define seclock_latch_await form_await
#define seclock_renew form_renew
#define seclock_proclaim form_proclaim
#define seclock_campaign form_campaign
#define seclock_release form_release
#define seclock_free form_free
#define seclock_close form_close
#define seclock_error form_reason

#endif
