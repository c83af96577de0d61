// What this process asks of, and tells, the system it runs on.
#pragma once

#include <cstdint>
#include <string_view>

namespace clef::server {

struct ProcessUse {
  std::int64_t resident_bytes = 0;
  std::int64_t open_descriptors = 0;
};

// Zeros where the system does not tell (it needs /proc).
ProcessUse process_use();

// Raises the number of descriptors that may be open to what the system allows; returns it.
std::int64_t raise_descriptor_limit();

// Tells the service manager, for example "READY=1", over the socket that NOTIFY_SOCKET names. Does nothing without one.
// Protocol: sd_notify(3).
void notify_manager(std::string_view state);

// Half the time within which the manager wants to hear WATCHDOG=1, in milliseconds; 0: it does not.
std::int64_t watchdog_interval_ms();

}  // namespace clef::server
