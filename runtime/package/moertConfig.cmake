# SPDX-License-Identifier: Apache-2.0
# find_package(moert) gives moert::moert (shared) and moert::moert_static.
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/moertTargets.cmake)
