// Empty: the emulator has this header's declarations built in.
