// Arguments of main() as the helper files of NVIDIA's samples read them: -name, --name, -name=value.
#pragma once
#include <strings.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#ifndef EXIT_WAIVED
#define EXIT_WAIVED 2
#endif
#define STRCASECMP strcasecmp
#define STRNCASECMP strncasecmp
#define STRCPY(to, size, from) strcpy(to, from)
#define FOPEN(file, name, mode) (file = fopen(name, mode))
#define FOPEN_FAIL(result) (result == NULL)
#define SSCANF sscanf
#define SPRINTF sprintf

namespace emu {
// What follows -name in an argument: "" for a flag, "=value"; null for another argument.
inline const char* after_name(const char* argument, const char* name) {
    if (*argument != '-') return nullptr;
    while (*argument == '-') ++argument;
    size_t length = strlen(name);
    bool is_it = !strncasecmp(argument, name, length) && (!argument[length] || argument[length] == '=');
    return is_it ? argument + length : nullptr;
}
inline const char* value_of_argument(int count, const char** arguments, const char* name) {
    for (int i = 1; i < count; ++i)
        if (const char* rest = after_name(arguments[i], name)) return *rest == '=' ? rest + 1 : rest;
    return nullptr;
}
}  // namespace emu

inline bool checkCmdLineFlag(int count, const char** arguments, const char* name) {
    return emu::value_of_argument(count, arguments, name) != nullptr;
}
inline int getCmdLineArgumentInt(int count, const char** arguments, const char* name) {
    const char* value = emu::value_of_argument(count, arguments, name);
    return value ? atoi(value) : 0;
}
inline float getCmdLineArgumentFloat(int count, const char** arguments, const char* name) {
    const char* value = emu::value_of_argument(count, arguments, name);
    return value ? float(atof(value)) : 0;
}
template <class T> bool getCmdLineArgumentValue(int count, const char** arguments, const char* name, T* out) {
    const char* value = emu::value_of_argument(count, arguments, name);
    return value && (*out = T(atof(value)), true);
}
inline bool getCmdLineArgumentString(int count, const char** arguments, const char* name, char** out) {
    *out = const_cast<char*>(emu::value_of_argument(count, arguments, name));
    return *out != nullptr;
}
// Path of a file in the working directory or in a folder of data next to it or to the program; null without one.
inline char* sdkFindFilePath(const char* name, const char* program) {
    std::string here = program ? program : "";
    here.resize(here.rfind('/') + 1);
    for (const std::string& base : {std::string(), here})
        for (const char* folder : {"", "data/", "../data/", "../../data/", "../../../data/"})
            if (std::string path = base + folder + name; std::ifstream(path).good()) return strdup(path.c_str());
    return nullptr;
}
