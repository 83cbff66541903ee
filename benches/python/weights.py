"""Reads files of safetensors: eight bytes with the length of a header, the header in JSON, and the tensors' bytes."""
import json
import os

import numpy as np

# The keys and values of GPT-2's text, for peers that take them as an input.
PAST = "gpt2_token.past.npy"
KINDS = {"F32": np.float32, "I64": np.int64}


def tensors(path, chosen=lambda name: True, empty=np.empty):
    """The chosen tensors of a file by name. Each is read straight into memory that `empty(shape, dtype)` makes, so that a file
    never lies in memory twice."""
    found = {}
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__" and chosen(name):
                tensor = empty(entry["shape"], KINDS[entry["dtype"]])
                file.seek(8 + length + entry["data_offsets"][0])
                file.readinto(memoryview(tensor).cast("B"))
                found[name] = tensor
    return found


def inputs_of(folder, name):
    """The inputs of a model, in their order."""
    found = tensors(os.path.join(folder, "inputs.safetensors"), lambda key: key.startswith(name + "."))
    return [found[key] for key in sorted(found)]
