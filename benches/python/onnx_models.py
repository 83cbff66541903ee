"""ONNX Runtime: the models that PyTorch exported into the folder, and single convolutions and products by the names of their
cases, built here; serve.py follows. The arguments are the number of threads and the folder."""
import re
import sys

import onnxruntime as ort

THREADS, FOLDER = int(sys.argv[1]), sys.argv[2]
ort.set_default_logger_severity(3)


def session(model):
    options = ort.SessionOptions()
    options.intra_op_num_threads = THREADS
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def exported(name):
    """The first result of the model of this name."""
    path = os.path.join(FOLDER, name + ".onnx")
    if not os.path.exists(path):
        return None
    run = session(path)
    inputs = inputs_of(FOLDER, name)
    if name == "gpt2_token":
        inputs[1] = np.load(os.path.join(FOLDER, PAST))
    feed = dict(zip((x.name for x in run.get_inputs()), inputs))
    return lambda: run.run(None, feed)


def built(nodes, result, inputs, weights):
    """The call of a graph of these nodes."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node(kind, of, [to], **options) for kind, of, to, options in nodes],
        "part",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(x, name) for name, x in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    run = session(model.SerializeToString())
    return lambda: run.run(None, inputs)


def values(*shape):
    return np.random.default_rng(0).random(shape, dtype=np.float32) * 0.9 + 0.1


def part(name):
    """A convolution, a linear layer or an attention."""
    if m := re.fullmatch(r"conv2d_b(\d+)_c(\d+)_h(\d+)_o(\d+)_k(\d+)_s(\d+)", name):
        b, c, h, o, k, s = map(int, m.groups())
        options = {"kernel_shape": [k, k], "strides": [s, s], "pads": [k // 2] * 4}
        return built([("Conv", ["x", "w"], "y", options)], "y", {"x": values(b, c, h, h)}, {"w": values(o, c, k, k)})
    if m := re.fullmatch(r"linear_(\d+)x(\d+)x(\d+)(?:_T)?", name):
        rows, i, o = map(int, m.groups())
        nodes = [("Gemm", ["x", "w", "b"], "y", {"transB": 1})]
        return built(nodes, "y", {"x": values(rows, i)}, {"w": values(o, i), "b": values(o)})
    if m := re.fullmatch(r"attention_h(\d+)(?:_q(\d+))?_s(\d+)_d(\d+)", name):
        h, q, s, d = int(m[1]), int(m[2] or m[3]), int(m[3]), int(m[4])
        nodes = [
            ("Transpose", ["k"], "t", {"perm": [0, 2, 1]}),
            ("MatMul", ["q", "t"], "scores", {}),
            ("Mul", ["scores", "scale"], "scaled", {}),
            ("Softmax", ["scaled"], "weights", {"axis": 2}),
            ("MatMul", ["weights", "v"], "y", {}),
        ]
        inputs = {"q": values(h, q, d), "k": values(h, s, d), "v": values(h, s, d)}
        return built(nodes, "y", inputs, {"scale": np.array(d**-0.5, np.float32)})
    return None


def setup(name, *variant):
    return exported(name) or part(name)


def numbers(name):
    call = exported(name)
    return call and call()[0]


def finish():
    """Calls return when their work is done."""


def version():
    return f"ONNX Runtime {ort.__version__}, {THREADS} threads"
