// Timers of the helper files that NVIDIA's samples come with, by the clock of the host.
#pragma once
#include <chrono>

class StopWatchInterface {
  public:
    void start() { begun = now(), is_running = true; }
    void stop() { total += now() - begun, ++sessions, is_running = false; }
    void reset() { total = 0, sessions = 0, begun = now(); }
    float getTime() { return float(is_running ? total + now() - begun : total); }  // milliseconds
    float getAverageTime() { return sessions ? float(total / sessions) : 0; }

  private:
    static double now() {
        using namespace std::chrono;
        return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
    }
    double begun = 0, total = 0;
    int sessions = 0;
    bool is_running = false;
};

inline bool sdkCreateTimer(StopWatchInterface** timer) { return (*timer = new StopWatchInterface) != nullptr; }
inline bool sdkDeleteTimer(StopWatchInterface** timer) {
    delete *timer;
    *timer = nullptr;
    return true;
}
inline bool sdkStartTimer(StopWatchInterface** timer) { return *timer && ((*timer)->start(), true); }
inline bool sdkStopTimer(StopWatchInterface** timer) { return *timer && ((*timer)->stop(), true); }
inline bool sdkResetTimer(StopWatchInterface** timer) { return *timer && ((*timer)->reset(), true); }
inline float sdkGetTimerValue(StopWatchInterface** timer) { return *timer ? (*timer)->getTime() : -1; }
inline float sdkGetAverageTimerValue(StopWatchInterface** timer) { return *timer ? (*timer)->getAverageTime() : 0; }
