/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the library a hundred times without linking it, runs a layer each time, and checks that
 * unloading leaves nothing behind: no mapping, thread, file or heap block.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "moert/moert_loader.h"

static struct moert_api api;
#define CALL(name) api.name
#include "run_layer.h"

enum { kCycles = 100, kWarmup = 50 };

static void Fail(const char* what) {
  fprintf(stderr, "%s\n", what);
  exit(1);
}

static double Milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int IsMapped(void) {
  char line[4096];
  int found = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == NULL) Fail("cannot read /proc/self/maps");
  while (fgets(line, sizeof(line), maps) != NULL) {
    if (strstr(line, "libmoert") != NULL) found = 1;
  }
  fclose(maps);
  return found;
}

static int CountEntries(const char* folder) {
  int count = 0;
  DIR* directory = opendir(folder);
  if (directory == NULL) Fail(folder);
  while (readdir(directory) != NULL) ++count;
  closedir(directory);
  return count;
}

static void Load(const char* path) {
  char why[512];
  if (moert_load(&api, path, why, sizeof(why)) != MOERT_STATUS_OK) Fail(why);
}

static int CompareDoubles(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

/* Printed, not checked: the bar is 3 ms on a quiet machine. */
static void MeasureStart(const char* path) {
  static double times[kCycles];
  int i;
  for (i = 0; i < kCycles; ++i) {
    moert_runtime* runtime = NULL;
    moert_device* device = NULL;
    const double start = Milliseconds();
    Load(path);
    if (api.runtime_create(NULL, &runtime, NULL) != MOERT_STATUS_OK ||
        api.device_create(runtime, "cpu", NULL, &device, NULL) != MOERT_STATUS_OK) {
      Fail("cannot create a CPU device");
    }
    times[i] = Milliseconds() - start;
    api.device_release(device);
    api.runtime_release(runtime);
    moert_unload(&api);
  }
  qsort(times, kCycles, sizeof(times[0]), CompareDoubles);
  printf("dlopen, runtime and CPU device: median %.2f ms, slowest %.2f ms\n", times[kCycles / 2],
         times[kCycles - 1]);
}

static void CheckRefusals(const char* not_moert) {
  char why[512];
  memset(&api, 0xa5, sizeof(api));
  if (moert_load(&api, "/nonexistent/libmoert.so.0", why, sizeof(why)) !=
          MOERT_STATUS_UNAVAILABLE ||
      strstr(why, "/nonexistent/libmoert.so.0") == NULL || api.library != NULL) {
    Fail("loading a missing file is not refused by its name");
  }
  if (moert_load(&api, not_moert, why, sizeof(why)) != MOERT_STATUS_UNAVAILABLE ||
      strstr(why, "moert_abi_version") == NULL) {
    Fail("loading another library is not refused");
  }
  if (moert_load(&api, not_moert, why, 5) != MOERT_STATUS_UNAVAILABLE || strlen(why) != 4) {
    Fail("a short error text is not cut to its size");
  }
  if (moert_load(&api, not_moert, NULL, 0) != MOERT_STATUS_UNAVAILABLE) Fail("NULL error");
  moert_unload(&api);
  moert_unload(NULL);
}

int main(int argc, char** argv) {
  size_t heap = 0;
  long growth;
  int threads, files, i;
  if (argc != 2) Fail("usage: dlopen_test LIBRARY");
  CheckRefusals("libm.so.6");
  threads = CountEntries("/proc/self/task");
  files = CountEntries("/proc/self/fd");
  for (i = 0; i < kCycles; ++i) {
    Load(argv[1]);
    if (RunLayer() != 0) Fail("the layer failed");
    moert_unload(&api);
    if (IsMapped()) Fail("the library is still mapped after dlclose");
    if (CountEntries("/proc/self/task") != threads) Fail("a thread outlives the library");
    if (CountEntries("/proc/self/fd") != files) Fail("a file outlives the library");
    if (i + 1 == kWarmup) heap = mallinfo2().uordblks;
  }
  growth = (long)(mallinfo2().uordblks - heap);
  printf("heap after %d further cycles: %+ld bytes\n", kCycles - kWarmup, growth);
  if (growth > 2048) Fail("the heap grows with each cycle");
  MeasureStart(argv[1]);
  return 0;
}
