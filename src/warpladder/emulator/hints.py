"""How each kind of fault is usually mended, in a sentence."""

HINTS = {
    "race": "put __syncthreads() between the two lines, or make the access atomic; between blocks only an atomic or a second launch helps.",
    "unfinished copy": "commit the copy, wait for its group (wait_for_copies<0> waits for all) and then put __syncthreads(), before anybody reads what it brings.",
    "barrier": "every thread of the block must come to the same __syncthreads(): take it out of the if, and let idle threads skip the work, not the barrier.",
    "warp mask": "the mask must name exactly the lanes that come to the call: call it before any if or return that keeps lanes away.",
    "deadlock": "a thread waits for something that only a thread or block behind it can do: let nobody wait for a block that may not have started.",
    "uninitialised": "write the element in every case before it is read, a 0 where there is no data; a guard (if (i < n)) around the store leaves a hole.",
    "out of bounds": "compare the index with the length before the access, if (i < n): the last block has threads left over, and the first ones no left neighbour.",
    "misaligned": "a wide access (float4, float2) wants an address that its size divides: start at a multiple of it, and pad rows to one.",
    "launch": "cut the work into more and smaller blocks. A GPU runs nothing then, and only cudaGetLastError() says so.",
    "order": "look for two threads that write the same element. Where it is meant (places handed out by an atomic counter), check one order only, with --order.",
    "wrong result": "where nothing else is found it is the arithmetic: print from one thread and compare with the sum by hand.",
    "unfilled": "a program fills it with cudaMemcpyToSymbol; here [constants] in the TOML file or --constant NAME=WHAT says what it holds.",
    "unwritten": "look at the guard and at the size of the grid; what is meant to stay as it is gets content (x=1000:zeros), an output that is not wanted null.",
    "nothing written": "all threads have left early, or store where nobody looks: compare the guard with the numbers that the launch is given.",
    "time limit": "look at what ends the loop in that line; a launch that is only slow wants smaller sizes here, or --timeout.",
    "uninitialised local": "give the variable a value where it is declared: one way through the code reads it before any store.",
    "trap": "an assert, __trap() or a division by zero has stopped the thread: print what the condition names, or check it on the host.",
}
