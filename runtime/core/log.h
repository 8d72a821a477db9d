// SPDX-License-Identifier: Apache-2.0
// Log lines go to the host's sink, or nowhere.
#ifndef MOERT_CORE_LOG_H_
#define MOERT_CORE_LOG_H_

#include "moert/moert.h"

namespace moert {

class Logger {
 public:
  // `sink` null: nowhere. Does not own sink->free_fn; the runtime does.
  explicit Logger(const moert_log_sink* sink) {
    if (sink != nullptr) sink_ = *sink;
  }
  bool enabled(moert_log_level level) const {
    return sink_.write != nullptr && level >= sink_.min_level;
  }
  [[gnu::format(printf, 3, 4)]] void Log(moert_log_level level, const char* format, ...) const;

 private:
  moert_log_sink sink_ = MOERT_LOG_SINK_INIT;
};

}  // namespace moert

#endif  // MOERT_CORE_LOG_H_
