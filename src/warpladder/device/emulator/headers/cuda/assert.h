// Macro assert(), redefined at each inclusion, and empty if NDEBUG is defined, as in the C library; but a failure
// names block and thread.
#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define assert(...) ((__VA_ARGS__) ? (void)0 : emu_trap("assertion '" #__VA_ARGS__ "' failed", __FILE__, __LINE__))
#endif
