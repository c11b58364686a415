// The console of Windows, on which programs of courses wait for a key before their window closes.
#pragma once
#include <cstdio>

inline int getch() { return std::getchar(); }
inline int _getch() { return std::getchar(); }
inline int getche() { return std::getchar(); }
inline int _getche() { return std::getchar(); }
inline int kbhit() { return 0; }
inline int _kbhit() { return 0; }
