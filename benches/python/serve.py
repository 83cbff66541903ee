

def serve():
    """Runs cases when told to on standard input, and answers on standard output.

    version        -> one line about the versions
    setup NAME     -> "ok", or "none" when there is no such case or it fails
    run REPEATS    -> seconds that so many calls of the case took, after 5 ms of calls that are not timed
    """
    import time

    call = None
    for line in sys.stdin:
        command, _, argument = line.strip().partition(" ")
        if command == "version":
            answer = version()
        elif command == "setup":
            try:
                call = setup(argument)
                answer = "none" if call is None else "ok"
                if call:
                    call()
            except Exception:
                answer = "none"
        else:
            start = time.perf_counter()
            call()
            while time.perf_counter() < start + 0.005:
                call()
            start = time.perf_counter()
            for _ in range(int(argument)):
                call()
            answer = time.perf_counter() - start
        print(answer, flush=True)


serve()
