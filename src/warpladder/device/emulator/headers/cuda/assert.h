// assert(), as often as it is included, and nothing where NDEBUG is defined: as the C library has it, but a failure
// names block and thread.
#undef assert
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define assert(...) ((__VA_ARGS__) ? (void)0 : emu_trap("assertion '" #__VA_ARGS__ "' failed", __FILE__, __LINE__))
#endif
