"""Writes tests/golden.csv: the scores of the files in samples, and what Magika says of them.

    python examples/onnx/golden.py > examples/onnx/tests/golden.csv

Needs magika, which brings onnxruntime and the model, and onnx. The scores are computed in f64 by ONNX's reference
evaluator. ONNX Runtime computes in f32; the third column tells how far its scores are from them. Magika reads the files
itself; this script turns them into tokens by the definition, and fails if both ways lead to different scores.
"""

import csv
import sys
from pathlib import Path

import magika
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

BLOCK, HALF, PADDING = 4096, 1024, 256


def tokens(data):
    first = list(data[:BLOCK].lstrip()[:HALF])
    last = list(data[-BLOCK:].rstrip()[-HALF:])
    return first + [PADDING] * (HALF - len(first)) + [PADDING] * (HALF - len(last)) + last


def exact(path):
    """The model with f64 in the place of f32."""
    model = onnx.load(path)
    graph = model.graph
    for tensor in graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = onnx.numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == onnx.TensorProto.FLOAT:
                attribute.i = onnx.TensorProto.DOUBLE
        # The evaluator drops the axis that this operator keeps.
        if node.op_type == "GlobalMaxPool":
            node.op_type = "ReduceMax"
            node.attribute.extend([onnx.helper.make_attribute("axes", [2]), onnx.helper.make_attribute("keepdims", 1)])
    graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return ReferenceEvaluator(model)


def main():
    folder = Path(__file__).parent
    model = next(Path(magika.__file__).parent.glob("models/*/model.onnx"))
    session, reference, whole = onnxruntime.InferenceSession(model), exact(model), magika.Magika()
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["sample", "type", "error of ONNX Runtime", "scores"])
    for path in sorted((folder / "samples").iterdir()):
        inputs = {"bytes": np.array([tokens(path.read_bytes())], dtype=np.int32)}
        (single,), (scores,) = session.run(None, inputs)[0], reference.run(None, inputs)[0]
        answer = whole.identify_path(path)
        if abs(answer.score - single.max()) > 1e-6:
            sys.exit(f"{path}: Magika's score is {answer.score}, and its model's {single.max()}")
        error = abs(single - scores).max()
        writer.writerow([path.name, answer.output.label, f"{error:.1e}", " ".join(f"{score:.7g}" for score in scores)])


if __name__ == "__main__":
    main()
