// SPDX-License-Identifier: Apache-2.0
// Signals of the process are for the host's threads: while one of these lives, threads that are
// started get none.
#ifndef MOERT_CORE_BLOCK_SIGNALS_H_
#define MOERT_CORE_BLOCK_SIGNALS_H_

#include <signal.h>

namespace moert {

class BlockSignals {
 public:
  BlockSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old_);
  }
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  sigset_t old_;
};

}  // namespace moert

#endif  // MOERT_CORE_BLOCK_SIGNALS_H_
