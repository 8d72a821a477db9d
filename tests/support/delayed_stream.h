// SPDX-License-Identifier: Apache-2.0
// Streams and events of the delayed test device: a thread for each stream takes tasks in order and
// lets some time pass before each, so that nobody can rely on work being done when a call returns.
#ifndef MOERT_TESTS_SUPPORT_DELAYED_STREAM_H_
#define MOERT_TESTS_SUPPORT_DELAYED_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "backend/backend.h"
#include "delayed_memory.h"

namespace moert::test {

// A failure that is kept until it is read.
struct Failure {
  moert_status code = MOERT_STATUS_OK;
  int64_t native_code = 0;
  std::string message;

  static Failure Of(const Status& status) {
    return {status.code(), status.native_code(), status.message()};
  }
  Status ToStatus() const {
    if (code == MOERT_STATUS_OK) return Status();
    return Status::Make(code, native_code, "%s", message.c_str());
  }
};

// Counts the tasks that use a prepared object, whose destructor waits for them.
class Users {
 public:
  ~Users() { Wait(); }
  void Enter();
  void Leave();
  void Wait();

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;
};

// A point in a stream, shared by the event, the stream's task and waiting streams.
struct Marker {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  Failure failure;

  void Reach(const Failure& stream_failure);
  void Wait();
};

class DelayedStream final : public BackendStream {
 public:
  using Task = std::function<Status(BackendStream& cpu_stream)>;

  DelayedStream(DelayedMemory& memory, Owned<BackendStream> cpu_stream);
  ~DelayedStream() override;

  Status Copy(void* destination, const void* source, uint64_t bytes) override;
  Status WaitEvent(const BackendEvent& event) override;
  Status Synchronize() override;
  Status Check() override;
  Status Reserve(uint64_t bytes) override;
  Status Scratch(Workspace* out) override;

  void Enqueue(Task task);
  void Enqueue(Users& users, Task task);
  Failure failure();

 private:
  void Work();
  void Keep(const Status& status);

  DelayedMemory& memory_;
  Owned<BackendStream> cpu_stream_;
  Workspace scratch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool stopping_ = false;
  Failure failure_;
  std::thread worker_;
};

class DelayedEvent final : public BackendEvent {
 public:
  Status Record(BackendStream& stream) override;
  Status Query() const override;
  Status Wait() const override;
  std::shared_ptr<Marker> marker() const;

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Marker> marker_;
};

}  // namespace moert::test

#endif  // MOERT_TESTS_SUPPORT_DELAYED_STREAM_H_
