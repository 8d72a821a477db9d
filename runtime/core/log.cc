// SPDX-License-Identifier: Apache-2.0
#include "core/log.h"

#include <cstdarg>
#include <cstdio>

namespace moert {

void Logger::Log(moert_log_level level, const char* format, ...) const {
  if (!enabled(level)) return;
  char line[1024];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  sink_.write(sink_.user_data, level, line);
}

}  // namespace moert
