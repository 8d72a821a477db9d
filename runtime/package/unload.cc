// SPDX-License-Identifier: Apache-2.0
// Part of the shared library alone: gives back what its own copy of libstdc++ allocated when it was
// loaded (the reserve for exceptions), so that dlclose leaves nothing behind.

namespace __gnu_cxx {
void __freeres();
}

namespace {
[[gnu::destructor]] void Unload() { __gnu_cxx::__freeres(); }
}  // namespace
