// The runtime in one piece, so that one call of the compiler builds it.
#include "api.cpp"
#include "callouts.cpp"
#include "checker.cpp"
#include "explain.cpp"
#include "findings.cpp"
#include "launch.cpp"
#include "sync.cpp"
#include "worker.cpp"
