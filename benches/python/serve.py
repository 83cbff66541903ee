"""Answers for a peer whose files precede this one. They have `setup(name, ...)`, which returns the call of a case, or the call
and a note about it, or None; `finish()`, which waits until the work of all calls is done; and `version()`. Peers whose results
are compared have `numbers(name)`, a NumPy array of the result or None; peers that write models for others have
`export(name, path)`."""


def peak():
    """The most bytes that this process had in memory, by Linux's account."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return "none"


def serve():
    """Runs cases when told to on standard input, and answers on standard output.

    version            -> one line about the versions
    setup NAME ...     -> "ok" and perhaps a note, or "none" when there is no such case or it fails
    run REPEATS        -> seconds that so many calls of the case took, after 5 ms of calls that are not timed; the answer comes
                          when the threads that worked for it are asleep
    numbers NAME PATH  -> "ok" when the result of the case is in the file, as f32; else "none"
    export NAME PATH   -> "ok" when the model is in the file; else "none"
    peak               -> bytes

    Calls may return before a device has done their work: `finish` waits for it, before the clock starts and before it stops.
    """
    import time

    call = None
    for line in sys.stdin:
        # What comes last, a variant or a path, may have blanks.
        command, *arguments = line.strip().split(None, 2)
        try:
            match command:
                case "version":
                    answer = version()
                case "peak":
                    answer = peak()
                case "setup":
                    found = setup(*arguments)
                    call, note = found if isinstance(found, tuple) else (found, "")
                    answer = "none" if call is None else f"ok {note}"
                    if call:
                        call()
                        finish()
                case "numbers":
                    name, path = arguments
                    result = numbers(name)
                    answer = "none" if result is None else "ok"
                    if result is not None:
                        result.astype("float32").tofile(path)
                case "export":
                    export(*arguments)
                    answer = "ok"
                case "run":
                    start = time.perf_counter()
                    call()
                    finish()
                    while time.perf_counter() < start + 0.005:
                        call()
                        finish()
                    start = time.perf_counter()
                    for _ in range(int(arguments[0])):
                        call()
                    finish()
                    answer = time.perf_counter() - start
                    # Its threads spin for a while before they sleep: the next peer's turn begins when they do.
                    time.sleep(0.01)
        except Exception as error:
            if command == "version":
                raise
            # Cases that a peer does not have are no news; of whole models the reason is, and of calls that fail later.
            if command in ("numbers", "export", "run"):
                print(f"{command} {arguments[0]}: {error!r}", file=sys.stderr)
            answer = "none"
        print(answer, flush=True)


serve()
