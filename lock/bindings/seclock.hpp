/* C++17 over seclock.h: a client and a hold that end with their scope. One header, no library of
 * its own; what seclock.h says of threads, forks and results holds here.
 *
 *   seclock::client locks({"redis://127.0.0.1:6379"});
 *   if (seclock::hold report = locks.acquire(seclock::request("report").wait(5s))) {
 *       write_report(report.fence());                       // the store refuses a smaller fence
 *       if (report.release() == SECLOCK_LOST)
 *           check_the_report();
 *   }
 *
 * Outcomes that a program lives with (busy, timeout, failed, unknown, ...) are results; a mistake
 * of the caller (SECLOCK_CONFIG, SECLOCK_UNSUPPORTED) is thrown as seclock::error. */
#ifndef SECLOCK_HPP
#define SECLOCK_HPP

#include <chrono>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "seclock.h"

namespace seclock {

/* What the caller has asked for cannot be done. what() is the reason that seclock_error gives. */
class error : public std::invalid_argument {
public:
    explicit error(seclock_result result)
        : std::invalid_argument(seclock_error()), result_(result)
    {
    }
    seclock_result result() const noexcept { return result_; }

private:
    seclock_result result_;
};

/* Returns the result, unless it is the caller's mistake. */
inline seclock_result checked(seclock_result result)
{
    if (result == SECLOCK_CONFIG || result == SECLOCK_UNSUPPORTED)
        throw error(result);
    return result;
}

inline int milliseconds(std::chrono::milliseconds time)
{
    return static_cast<int>(time.count());
}

/* What to acquire, field by field: request("name").kind(SECLOCK_KIND_FAIR).wait(5s). */
class request {
public:
    explicit request(std::string name) : name_(std::move(name)) { raw_.size = sizeof raw_; }

    request &kind(seclock_kind kind) { return set(raw_.kind, kind); }
    request &read() { return set(raw_.mode, SECLOCK_MODE_READ); }
    request &permits(int permits, int limit = 0)
    {
        raw_.limit = limit;
        return set(raw_.permits, permits);
    }
    request &wait(std::chrono::milliseconds time) { return set(raw_.wait_ms, milliseconds(time)); }
    request &wait_forever() { return set(raw_.wait_ms, static_cast<int>(SECLOCK_FOREVER)); }
    request &lease(std::chrono::milliseconds time) { return set(raw_.lease_ms, milliseconds(time)); }
    request &fixed_lease() { return set(raw_.fixed_lease, true); }
    request &cancel_fd(int fd) { return set(raw_.cancel_fd, fd); }
    request &owner(const seclock_owner *owner) { return set(raw_.owner, owner); }

    /* Valid as long as this object, and until it changes. */
    const seclock_request *get() const
    {
        raw_.name = name_.c_str();
        return &raw_;
    }

private:
    template <typename Field, typename Value> request &set(Field &field, Value value)
    {
        field = value;
        return *this;
    }
    std::string name_;
    mutable seclock_request raw_{};
};

/* One try to hold a lock: true when it holds. It is released when it goes out of scope, also when
 * its acquisition is in doubt. Its client must live longer. */
class hold {
public:
    hold() = default;
    hold(seclock_result result, seclock_handle *handle) : result_(result), handle_(handle) {}

    /* What the acquisition gave. */
    seclock_result result() const noexcept { return result_; }
    explicit operator bool() const noexcept { return state() == SECLOCK_STATE_HELD; }

    enum seclock_state state() const noexcept
    {
        return handle_ ? seclock_state(handle_.get()) : SECLOCK_STATE_RELEASED;
    }
    std::uint64_t fence() const noexcept { return handle_ ? seclock_fence(handle_.get()) : 0; }
    std::chrono::milliseconds remaining() const noexcept
    {
        return std::chrono::milliseconds(handle_ ? seclock_remaining_ms(handle_.get()) : 0);
    }
    enum seclock_loss why_lost() const noexcept
    {
        return handle_ ? seclock_loss(handle_.get()) : SECLOCK_LOSS_NONE;
    }
    std::string token() const { return handle_ ? seclock_token(handle_.get()) : ""; }

    seclock_result renew() { return handle_ ? seclock_renew(handle_.get()) : SECLOCK_NOT_OWNER; }
    seclock_result release()
    {
        return handle_ ? seclock_release(handle_.get()) : SECLOCK_NOT_OWNER;
    }
    seclock_result proclaim(const std::string &value)
    {
        return handle_ ? checked(seclock_proclaim(handle_.get(), value.c_str())) : SECLOCK_NOT_OWNER;
    }
    seclock_handle *get() const noexcept { return handle_.get(); }

private:
    struct end {
        void operator()(seclock_handle *handle) const noexcept
        {
            seclock_release(handle); /* one that is released sends nothing */
            seclock_free(&handle);
        }
    };
    seclock_result result_ = SECLOCK_FAILED;
    std::unique_ptr<seclock_handle, end> handle_;
};

/* The servers as one process sees them. Give it the servers alone, or options whose `servers` it
 * fills in. Throws seclock::error, or std::bad_alloc. */
class client {
public:
    explicit client(const std::vector<std::string> &servers, seclock_options options = {})
    {
        std::vector<const char *> urls;
        for (const std::string &server : servers)
            urls.push_back(server.c_str());
        urls.push_back(nullptr);
        options.size = sizeof options;
        options.servers = urls.data();
        seclock_client *opened = nullptr;
        if (checked(seclock_open(&options, &opened)) != SECLOCK_OK)
            throw std::bad_alloc();
        client_.reset(opened);
    }

    hold acquire(const request &wanted)
    {
        seclock_handle *handle = nullptr;
        seclock_result result = seclock_acquire(client_.get(), wanted.get(), &handle);
        return {checked(result), handle};
    }
    hold campaign(const request &wanted, const std::string &value)
    {
        seclock_handle *handle = nullptr;
        seclock_result result =
            seclock_campaign(client_.get(), wanted.get(), value.c_str(), &handle);
        return {checked(result), handle};
    }
    seclock_client *get() const noexcept { return client_.get(); }

private:
    struct end {
        void operator()(seclock_client *client) const noexcept { seclock_close(&client); }
    };
    std::unique_ptr<seclock_client, end> client_;
};

} // namespace seclock

#endif
