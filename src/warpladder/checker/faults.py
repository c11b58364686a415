"""Merging of the faults that the modes of a check found: each fault once, with its modes, a count and a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

MODES = ("check", "asan", "fast")

Place = tuple[str, int]

#: Usual remedy of each kind of fault, in a sentence.
HINTS = {
    "race": "put __syncthreads() between the two lines, or make the access atomic; between blocks only an atomic or a "
    "second launch helps, and in code of one warp alone __syncwarp() is enough.",
    "unfinished copy": "commit the copy, wait for its group (wait_for_copies<0> waits for all) and then put "
    "__syncthreads(), before any thread reads the copied data.",
    "barrier": "every thread of the block must come to the same __syncthreads(): take it out of the if, and let idle "
    "threads skip the work, not the barrier.",
    "warp mask": "the mask must name exactly the lanes that come to the call: call it before any if or return that "
    "keeps lanes away.",
    "phase": "let as many threads arrive as barrier_init names, and as many bytes as barrier_expect announces; a wait "
    "takes the parities 0, 1, 0, ... in turn.",
    "warpgroup": "four whole warps, the first of them a multiple of four, call wgmma and wait for it together, with "
    "the same factors: take it out of the if.",
    "wgmma fence": "call wgmma_begin() after the last line that sets or reads the sums, and before the wgmma that adds "
    "to them.",
    "proxy fence": "let every thread that writes the tile call tiles_written() after it, and before the barrier that "
    "the multiplying threads wait for.",
    "unfinished product": "wgmma_commit() ends a group, and wgmma_wait<0>() waits for all of them: both before a "
    "thread reads the sums, and before the kernel ends.",
    "deadlock": "a thread waits for another thread or block that cannot go on: never wait for a block that may not "
    "have started.",
    "uninitialised": "write the element in every case before it is read, a 0 where there is no data; a guard "
    "(if (i < n)) around the store leaves a hole.",
    "out of bounds": "compare the index with the length before the access, if (i < n): the last block has threads left "
    "over, and the first ones no left neighbour.",
    "same bytes": "declare one array, extern __shared__ float all[], and let the second one start after it: "
    "int* counts = (int*)&all[n], with the bytes of both as the launch's third number.",
    "misaligned": "the size of a wide access (float4, float2) must divide its address: start at a multiple of it, and "
    "pad rows to one.",
    "launch": "cut the work into more and smaller blocks; the first number of <<< >>> counts the blocks, the second "
    "the threads of each. A GPU runs nothing then, and only cudaGetLastError() reports it.",
    "order": "look for two threads that write the same element. Where it is meant (places handed out by an atomic "
    "counter), check one order only, with --order.",
    "wrong result": "if there is no other fault, the arithmetic is wrong: print from one thread and compare with the "
    "sum by hand.",
    "unfilled": "a program fills it with cudaMemcpyToSymbol; here [constants] in the TOML file or --constant NAME=WHAT "
    "gives its value.",
    "unwritten": "look at the guard and at the size of the grid; give content (x=1000:zeros) to an array that may stay "
    "as it is, and null to an output that is not wanted.",
    "nothing written": "all threads leave early, or none stores into an array: compare the guard with the numbers that "
    "the launch is given.",
    "time limit": "look at the condition that ends the loop in that line; for a launch that is only slow use smaller "
    "sizes here, or --timeout.",
    "uninitialised local": "give the variable a value where it is declared: one path through the code reads it before "
    "any store.",
    "trap": "an assert, __trap() or a division by zero has stopped the thread: print the values in the condition, or "
    "check it on the host.",
    "later block": "launch it with cudaLaunchCooperativeKernel, or hand out the blocks' numbers by an atomic counter.",
    "stack overflow": "look at the condition that ends the recursion. A GPU gives a thread 1 KB; "
    "cudaDeviceSetLimit(cudaLimitStackSize, bytes) gives it more.",
    "division by zero": "print the divisor, or check it on the host.",
    "copy": "compare the sizes in bytes on both sides, and the direction: cudaMemcpy(target, source, bytes, kind).",
    "bytes": "multiply the number of elements by sizeof of one.",
    "device variable": "cudaMemcpyFromSymbol(&value, name, sizeof value) reads it, cudaMemcpyToSymbol sets it, and "
    "cudaGetSymbolAddress gives a pointer for a kernel.",
    "host pointer": "allocate with cudaMalloc, fill by cudaMemcpy, and give the kernel that pointer.",
    "device memory": "copy with cudaMemcpy to memory of the host first, or allocate with cudaMallocManaged.",
    "child kernel": "launch what needs the other kernel's result after it: from the host, or by the same kernel in "
    "cudaStreamTailLaunch.",
    "not arrived": "call cudaDeviceSynchronize(), or cudaStreamSynchronize(stream), before the host reads or changes "
    "what a kernel or an asynchronous copy works on.",
    "streams": "cudaEventRecord(event, first) and cudaStreamWaitEvent(second, event) order two streams; or put both "
    "into one.",
    "free": "free each pointer that cudaMalloc gave once, by cudaFree, and one of cudaMallocHost by cudaFreeHost.",
    "capture": "wait after the graph's launch, or before the capture begins; what the graph is to run goes into its "
    "stream.",
    "handle": "create it before its use, and destroy it once, after its last use.",
    "unread error": "read the result of every call, and cudaGetLastError() after each launch, and stop with a message.",
    "shared memory": "ask for it with cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) "
    "before the launch, or use less.",
    "temporary memory": "allocate the bytes, cudaMalloc(&temporary, bytes), and call it again with that memory.",
    "host function": "let it set a flag or wake a thread of the host, which then calls CUDA; or put the work into the "
    "stream after it.",
    "argument": "cuBLAS counts in columns: a leading dimension is the number of rows of the matrix as it lies in "
    "memory. Compare each call's status with success.",
    "crash": "the host code is at fault: look at pointers and indices in that line.",
}


@dataclass(frozen=True)
class Problem:
    """Fault in a kernel, or in its use.

    kind : heading: race, out of bounds, ... message : sentence on the event and its threads.
    places : file and line of each access of the fault, the later one first.
    array : name of the array, "" for none. kernel, launch : first kernel and launch with it; launches are counted from
    1.
    seen : modes and orders with it: check, asan, forward order, ... count : number of times it occurred.
    also : further lines of the same fault: of races or early uses of copies on one array with a common line.
    """

    kind: str
    message: str
    places: tuple[Place, ...]
    array: str
    kernel: str
    launch: int
    seen: tuple[str, ...]
    count: int = 1
    also: tuple[Place, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """Result of a check.

    problems : each fault once. remarks : sentences about the launches that are no faults.
    launches : number of launches in the description. ran : modes that ended, and orders of the fast mode.
    printed : output of the kernels in the first mode. refused : reasons by kernel that could not be run.
    stopped : True if Ctrl-C ended the check before all modes had ended.
    """

    problems: tuple[Problem, ...]
    remarks: tuple[str, ...]
    launches: int
    ran: tuple[str, ...]
    printed: str
    refused: tuple[tuple[str, str], ...] = ()
    stopped: bool = False


_COPIED = (
    "what a pointer in a struct or an array points to has to be copied too: store the address that cudaMalloc gave, "
    "not the host's."
)
_ALLOCATE = "allocate it with cudaMalloc before the launch, and read the error that the call returns."

#: Remedies of faults of whole programs that have the kind of another fault, by a part of the message.
_HINTS_OF_PROGRAMS = {
    " of a local variable that is no more: ": "a local variable ends with its thread or its function: keep what others "
    "read later in an array of the device.",
    " orders these lanes of one warp: volatile does not": "add by __shfl_down_sync, or call __syncwarp() after each "
    "read and each store of every line like these: float v = s[t] + s[t + 16]; __syncwarp(); s[t] = v; __syncwarp();",
    " and no dependency orders the two": "name the first node among those that the second one comes after; while "
    "streams are captured, record an event in the first and let the second wait for it.",
    ", with no __threadfence() between the two stores": "call __threadfence() between the store of the data and the "
    "store of the flag; volatile orders neither.",
    " of memory that a kernel has freed": "delete or free it after its last use, by one thread.",
    ", memory that a kernel has freed already": "delete or free each piece once, by one thread.",
    ", what no kernel has allocated": "a kernel frees what a kernel got by malloc or new; cudaFree is for the rest.",
    " was freed at ": "free the memory after the last launch or copy that uses it.",
    " an index that has exceeded an int, ": "compute it in 64 bits: size_t i = (size_t)row * width + column.",
    " bytes that the launch gives": "give the bytes of all elements, n * sizeof of one, as the third number of "
    "<<< >>>, or compare the index with the length.",
    " it still has no value, ": "the target stands first: cudaMemcpy(target, source, bytes, cudaMemcpyHostToDevice).",
    " of the host's memory, which a kernel on a GPU cannot reach: ": _COPIED,
    " a pointer of the host, or one without a value": _COPIED,
    "a null pointer, at ": _ALLOCATE,
    " is not its own: the pointer is null": _ALLOCATE,
    " of shared memory, of which the launch has none": "give the bytes of extern __shared__ as the third number of "
    "<<< >>>.",
    " is filtered linearly and ": "read it as cudaReadModeNormalizedFloat, or filter it by cudaFilterModePoint.",
    " store the same one": "compute a different index in each thread: blockIdx.x * blockDim.x + threadIdx.x.",
    ": x and y of its grid are swapped": "x counts columns and y rows: dim3 grid((width + 15) / 16, (height + 15) / "
    "16).",
    " does not show what it prints": "call cudaDeviceSynchronize() before main() returns.",
    "is a variable of the program: ": "cudaMemcpyToSymbol(variable, source, bytes).",
    " brings what nothing has written yet of ": "copy the result after the launch that stores it.",
    ", and no line is known: ": "compare the bytes of each copy to the host with the size of its target.",
    " that nothing has written, ": "round the grid up, (n + block - 1) / block, and let the guard if (i < n) stop the "
    "threads that are left over.",
    ": the number of blocks is rounded down": "round the grid up, (n + block - 1) / block.",
    " bytes of a variable, and a kernel reads others at ": "give the bytes of the whole variable, sizeof name; sizeof "
    "of a pointer is 8, and elements have several bytes each.",
    " in a launch that is not cooperative, ": "launch it with cudaLaunchCooperativeKernel, with no more blocks than "
    "fit on the GPU at a time.",
    " it counts bytes, so multiply it by sizeof ": "the x of surf1Dread, surf2Dwrite and their kind is x * sizeof of "
    "one element; y and z count rows and layers.",
    "fills a variable after the launches that read it": "call cudaMemcpyToSymbol before the launch.",
    " of __shared__ arrays ": "use smaller tiles, or extern __shared__ with the bytes as the third number of <<< >>>, "
    "which cudaFuncSetAttribute allows to be more.",
}


def hint(problem: Problem) -> str:
    """Usual remedy of a fault, in a sentence."""
    return next((text for part, text in _HINTS_OF_PROGRAMS.items() if part in problem.message), HINTS[problem.kind])


Entries = Sequence[Mapping[str, Any]]

#: Kinds of faults that may end a process.
CAUSES = ("trap", "out of bounds", "misaligned", "undefined behaviour", "division by zero", "stack overflow")

#: Kinds with two places each: one fault may show in many pairs of lines.
_PAIRS = ("race", "unfinished copy", "unfinished product", "proxy fence")

#: Kinds that one fault may have in different modes: the end of a thread is a signal or a message, and an endless wait
#: may reach the time limit.
_ALIKE = (
    {"trap", "undefined behaviour", "division by zero", "crash"},
    {"deadlock", "barrier", "warp mask", "phase", "warpgroup", "time limit"},
    {"out of bounds", "crash"},
)


def found(entries: Mapping[str, Entries]) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Faults, each once, and remarks. A fault of the fast mode becomes a remark if another mode has found its cause."""
    problems: list[Problem] = []
    remarks: list[str] = []
    unfilled: list[str] = []
    for mode in MODES:
        known = bool(problems)
        running: Mapping[str, Any] = {"kernel": "", "launch": 0, "order": "forward"}
        for entry in entries.get(mode, ()):
            if "order" in entry:
                running = entry
            elif "remark" in entry:
                remarks.append(entry["remark"])
            elif "unfilled" in entry:
                unfilled.append(entry["unfilled"])
            elif "kind" in entry:
                problem = _problem({**running, **entry}, mode)
                consequence = problem.kind in ("order", "crash", "uninitialised local") and not any(
                    _same(old, problem) for old in problems
                )
                if known and mode == "fast" and consequence:
                    remarks.append(f"The fast mode shows it: {problem.message}")
                else:
                    add(problems, problem)
    if unfilled and "check" not in entries:
        names = ", ".join(dict.fromkeys(unfilled))
        remarks.append(f"No value was given for __constant__ {names}, and only the check mode sees whether it is read")
    return tuple(_causes(problems)), tuple(dict.fromkeys(remarks))


def refused(entries: Mapping[str, Entries]) -> tuple[tuple[str, str], ...]:
    """Kernels that a mode could not run, each once, with the reason."""
    out: dict[str, str] = {}
    for mode in entries:
        for entry in entries[mode]:
            if "refused" in entry:
                out.setdefault(entry["refused"], entry["why"])
    return tuple(out.items())


def _problem(entry: Mapping[str, Any], mode: str) -> Problem:
    kind, message = entry["kind"], entry["message"]
    seen = mode if mode != "fast" else "fast" if entry["order"] == "locals" else f"{entry['order']} order"
    if entry["order"] == "locals" and kind in ("crash", "time limit"):
        kind, message = "uninitialised local", f"with zeros or rubbish in local variables that have no value {message}"
    places = tuple((file, line) for file, line in entry["places"])
    return Problem(kind, message, places, entry["array"], entry["kernel"], entry["launch"], (seen,))


def add(problems: list[Problem], new: Problem) -> None:
    """Append a fault, or increase the count of an equal one: with the same lines, or with a common line in another
    mode.
    """
    for position, old in enumerate(problems):
        if _same(old, new):
            seen = tuple(dict.fromkeys(old.seen + new.seen))
            further = (
                tuple(place for place in (*old.also, *new.places) if place not in old.places)
                if old.kind == new.kind and new.kind in _PAIRS
                else old.also
            )
            problems[position] = replace(
                old, seen=seen, count=old.count + (old.seen == new.seen), also=tuple(dict.fromkeys(further))
            )
            return
    problems.append(new)


def _same(old: Problem, new: Problem) -> bool:
    """True if two problems are the same fault."""
    if (
        old.kind == new.kind
        and (old.array, set(old.places)) == (new.array, set(new.places))
        and (old.places or old.message == new.message)
    ):
        return bool(old.places) or old.kernel == new.kernel
    if old.kind == new.kind == "unfilled" and old.array == new.array:
        return True
    if old.kind == new.kind and new.kind in _PAIRS and (old.kernel, old.array) == (new.kernel, new.array):
        return bool({*old.places, *old.also} & set(new.places))
    if old.kernel != new.kernel or old.seen == new.seen:
        return False
    if new.kind == "crash" and not new.places and old.kind in CAUSES:
        return True
    if old.kind == new.kind == "stack overflow":  # the line depends on the size of a frame
        return True
    waits = {old.kind, new.kind} <= _ALIKE[1] and "time limit" in (old.kind, new.kind)
    alike = old.kind == new.kind or any({old.kind, new.kind} <= kinds for kinds in _ALIKE)
    return waits or (alike and bool(set(old.places) & set(new.places)))


def _causes(problems: list[Problem]) -> list[Problem]:
    """Faults that are causes, without their consequences: early reads after a race, races of an index out of bounds,
    results that depend on the order where a local variable has no value, crashes.
    """
    races = {(p.kernel, p.array, place) for p in problems if p.kind == "race" for place in p.places}
    outside = {
        (p.kernel, p.array, place) for p in problems if p.kind == "out of bounds" and p.array for place in p.places
    }
    rubbish = {(p.kernel, p.array) for p in problems if p.kind == "uninitialised local"}
    named = {p.kernel for p in problems if p.kind in CAUSES and p.places}
    return [
        p
        for p in problems
        if not (p.kind == "uninitialised" and any((p.kernel, p.array, place) in races for place in p.places))
        and not (p.kind == "race" and all((p.kernel, p.array, place) in outside for place in p.places))
        and not (p.kind == "order" and (p.kernel, p.array) in rubbish)
        and not (p.kind == "crash" and not p.places and p.kernel in named)
    ]
