// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are looked for when they are needed. None is ever unloaded.
#ifndef MOERT_CORE_DYNAMIC_LIBRARY_H_
#define MOERT_CORE_DYNAMIC_LIBRARY_H_

#include <string>

namespace moert {

// Null if it cannot be opened; appends the name and the system's reason to `tried`.
void* OpenLibrary(const char* name, std::string* tried);
// Null if the library has no such symbol.
void* FindSymbol(void* library, const char* name);
// Folder of the file that holds this library or program; "" if the system does not say.
std::string OwnDirectory();

}  // namespace moert

#endif  // MOERT_CORE_DYNAMIC_LIBRARY_H_
