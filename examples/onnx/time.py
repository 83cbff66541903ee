"""Times the imported model on Flex and the ONNX file on ONNX Runtime, in turn.

    cd examples/onnx && cargo build --release --example time && python time.py

Needs magika, which brings onnxruntime and the model. Prints milliseconds per file: the fastest of many turns of each,
since other programs only ever make a turn slower.
"""

import os
import subprocess
import time
from pathlib import Path

import magika
import numpy as np
import onnxruntime

from golden import tokens

ROUNDS = 30
# Between turns: until the threads of whoever ran last sleep.
PAUSE = 0.02


def main():
    folder = Path(__file__).parent
    target = Path(os.environ.get("CARGO_TARGET_DIR", folder / "target"))
    samples = [tokens(path.read_bytes()) for path in sorted((folder / "samples").iterdir())]
    model = next(Path(magika.__file__).parent.glob("models/*/model.onnx"))
    print("| threads | files at once | Flex | ONNX Runtime | ratio |\n| ---: | ---: | ---: | ---: | ---: |")
    for threads in (1, 2):
        environment = {**os.environ, "RAYON_NUM_THREADS": str(threads)}
        program = target / "release" / "examples" / "time"
        flex = subprocess.Popen(
            [program], cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(model, options)
        for files in (1, 16):
            batch = np.array([samples[k % len(samples)] for k in range(files)], dtype=np.int32)
            turns = 1 + 16 // files
            best = [float("inf")] * 2
            for _ in range(ROUNDS):
                flex.stdin.write(f"{files} {turns}\n")
                flex.stdin.flush()
                best[0] = min(best[0], float(flex.stdout.readline()))
                time.sleep(PAUSE)
                for _ in range(turns):
                    start = time.perf_counter()
                    session.run(None, {"bytes": batch})
                    best[1] = min(best[1], time.perf_counter() - start)
                time.sleep(PAUSE)
            ours, theirs = (1000 * seconds / files for seconds in best)
            print(f"| {threads} | {files} | {ours:.2f} ms | {theirs:.2f} ms | {theirs / ours:.2f} |")
        flex.stdin.close()
        flex.wait()


if __name__ == "__main__":
    main()
