// SPDX-License-Identifier: Apache-2.0
// XXH3 takes a file's bytes in order, so what runs in parallel is reading: each thread claims the
// next chunk, reads it, waits until the chunks before it in that file are in, and adds it. Chunks
// of as many files as there are threads are dealt out in turn, so that several files are hashed at
// once.
#include "manifest/hash.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/block_signals.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace moert {
namespace {

constexpr uint64_t kChunk = uint64_t{2} << 20;

struct Chunk {
  uint32_t file;
  uint64_t index;  // within the file
};

struct FileState {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state{nullptr, &XXH3_freeState};
  uint64_t next = 0;  // chunk that may be added now
};

class Hasher {
 public:
  Hasher(std::span<FileHash> files, uint32_t threads, moert_progress_fn progress, void* user_data)
      : files_(files), states_(files.size()), progress_(progress), user_data_(user_data) {
    for (size_t begin = 0; begin < files.size(); begin += threads) {
      const size_t end = std::min(files.size(), begin + threads);
      bool more = true;
      for (uint64_t index = 0; more; ++index) {
        more = false;
        for (size_t i = begin; i < end; ++i) {
          if (index * kChunk >= files[i].file->size()) continue;
          chunks_.push_back({static_cast<uint32_t>(i), index});
          more = true;
        }
      }
    }
    for (const FileHash& file : files) total_ += file.file->size();
  }

  Status Run(uint32_t threads) {
    for (FileState& file : states_) {
      file.state.reset(XXH3_createState());
      if (file.state == nullptr) return OutOfMemory("no memory for a hash state");
      XXH3_128bits_reset(file.state.get());
    }
    const uint64_t wanted = std::min<uint64_t>(threads, chunks_.size());
    std::vector<std::thread> workers;
    workers.reserve(threads);
    {
      const BlockSignals block;
      while (workers.size() + 1 < wanted) {
        try {
          workers.emplace_back([this] { Work(false); });
        } catch (...) {
          break;  // fewer threads do too
        }
      }
    }
    Work(true);
    for (std::thread& worker : workers) worker.join();
    MOERT_RETURN_IF_ERROR(std::move(status_));
    for (size_t i = 0; i < files_.size(); ++i) {
      const XXH128_hash_t hash = XXH3_128bits_digest(states_[i].state.get());
      files_[i].hash[0] = hash.low64;
      files_[i].hash[1] = hash.high64;
    }
    return Report(total_);
  }

 private:
  void Work(bool reports) {
    std::unique_ptr<char[]> buffer(new (std::nothrow) char[kChunk]);
    if (buffer == nullptr) return Stop(OutOfMemory("no memory to read a file"));
    for (;;) {
      const uint64_t unit = claimed_.fetch_add(1, std::memory_order_relaxed);
      if (unit >= chunks_.size() || stopped_.load(std::memory_order_relaxed)) return;
      Status status = Add(chunks_[unit], buffer.get());
      if (status.ok() && reports) status = Report(done_.load(std::memory_order_relaxed));
      if (!status.ok()) return Stop(std::move(status));
    }
  }

  Status Add(const Chunk& chunk, char* buffer) {
    const File& file = *files_[chunk.file].file;
    FileState& state = states_[chunk.file];
    const uint64_t offset = chunk.index * kChunk;
    const uint64_t bytes = std::min(kChunk, file.size() - offset);
    MOERT_RETURN_IF_ERROR(file.Read(offset, buffer, bytes));
    {
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [&] { return state.next == chunk.index || stopped_; });
      if (stopped_) return Status();
    }
    // Ours alone until `next` moves on.
    XXH3_128bits_update(state.state.get(), buffer, bytes);
    done_.fetch_add(bytes, std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      ++state.next;
    }
    turn_.notify_all();
    return Status();
  }

  Status Report(uint64_t done) {
    if (progress_ == nullptr) return Status();
    const int32_t code = progress_(user_data_, done, total_);
    if (code == 0) return Status();
    return Status::Make(MOERT_STATUS_CALLBACK_FAILED, code,
                        "the progress callback stopped the call with code %d after %llu bytes",
                        code, static_cast<unsigned long long>(done));
  }

  void Stop(Status status) {
    {
      std::lock_guard lock(mutex_);
      if (!stopped_) status_ = std::move(status);
      stopped_ = true;
    }
    turn_.notify_all();
  }

  std::span<FileHash> files_;
  std::vector<FileState> states_;
  std::vector<Chunk> chunks_;
  moert_progress_fn progress_;
  void* user_data_;
  uint64_t total_ = 0;
  std::atomic<uint64_t> claimed_{0}, done_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::condition_variable turn_;
  Status status_;
};

}  // namespace

Status HashFiles(std::span<FileHash> files, moert_progress_fn progress, void* user_data) {
  const uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  return Hasher(files, threads, progress, user_data).Run(threads);
}

}  // namespace moert
