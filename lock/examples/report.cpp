/* Writes a report while it holds the lock "report", on the server that SECKILL_REDIS_URL names. */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include <seclock.hpp>

using namespace std::chrono_literals;

int main()
{
    const char *url = std::getenv("SECKILL_REDIS_URL");
    try {
        seclock::client locks({url ? url : "redis://127.0.0.1:6379"});
        seclock::hold report = locks.acquire(seclock::request("report").wait(5s).lease(10s));
        if (!report) {
            std::fprintf(stderr, "%s: %s\n", seclock_result_name(report.result()), seclock_error());
            return 1;
        }
        std::printf("held, fence %" PRIu64 "\n", report.fence());
        return report.release() == SECLOCK_OK ? 0 : 1;
    } catch (const seclock::error &mistake) {
        std::fprintf(stderr, "%s\n", mistake.what());
        return 2;
    }
}
