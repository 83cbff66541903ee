"""Writes golden.csv: what PyTorch computes for some sentences with the weights of all-MiniLM-L6-v2.

    python examples/embed/golden.py FOLDER > examples/embed/golden.csv

FOLDER is what `examples/embed/fetch` makes. Needs torch. The tokenizer is the definition of WordPiece for plain
English, so that it is no second use of the library that the example uses.
"""

import csv
import json
import re
import sys
from pathlib import Path

import torch
import torch.nn.functional as F

SENTENCES = [
    "A man is eating food.",
    "Someone has a meal.",
    "The girl is carrying a baby up the stairs of an unusually uncomfortable lighthouse.",
    "Flex computes tensors on a CPU, without a C++ library.",
    "yes",
]
LAYERS, HEADS, WIDTH = 6, 12, 384
VALUES = 24


def read(path):
    """The f32 tensors of a safetensors file: the length of a JSON header, the header, and the data."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, tensor in json.loads(data[8:start]).items():
        if tensor.get("dtype") == "F32":
            first, last = (start + offset for offset in tensor["data_offsets"])
            tensors[name] = torch.frombuffer(bytearray(data[first:last]), dtype=torch.float32).view(tensor["shape"])
    return tensors


def tokens(sentence, vocabulary):
    """WordPiece: the longest piece that is known, again and again; pieces inside of a word start with ##."""
    found = ["[CLS]"]
    for word in re.findall(r"\w+|[^\w\s]", sentence.lower()):
        start = 0
        while start < len(word):
            prefix = "##" if start else ""
            end = next(e for e in range(len(word), start, -1) if prefix + word[start:e] in vocabulary)
            found.append(prefix + word[start:end])
            start = end
    return [vocabulary[token] for token in found + ["[SEP]"]]


def embed(ids, weights):
    """BERT's encoder, the mean over the tokens, and the division by its length."""
    linear = lambda x, name: F.linear(x, weights[name + ".weight"], weights[name + ".bias"])
    norm = lambda x, name: F.layer_norm(x, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"], 1e-12)
    words = weights["embeddings.word_embeddings.weight"][ids]
    positions = weights["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(words + positions + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}."
        heads = lambda part: linear(x, name + "attention.self." + part).view(len(ids), HEADS, -1).transpose(0, 1)
        context = F.scaled_dot_product_attention(heads("query"), heads("key"), heads("value"))
        context = context.transpose(0, 1).reshape(len(ids), WIDTH)
        x = norm(x + linear(context, name + "attention.output.dense"), name + "attention.output.LayerNorm")
        inner = F.gelu(linear(x, name + "intermediate.dense"))
        x = norm(x + linear(inner, name + "output.dense"), name + "output.LayerNorm")
    return F.normalize(x.mean(0), dim=0)


def main():
    folder = Path(sys.argv[1])
    vocabulary = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    weights = read(folder / "model.safetensors")
    exact = {name: tensor.double() for name, tensor in weights.items()}
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["sentence", "tokens", "first values of the embedding"])
    for sentence in SENTENCES:
        ids = tokens(sentence, vocabulary)
        values = embed(ids, weights)
        error = (values - embed(ids, exact)).abs().max().item()
        print(f"{len(ids)} tokens, float32 differs from float64 by up to {error:.1e}", file=sys.stderr)
        writer.writerow(
            [sentence, " ".join(map(str, ids)), " ".join(f"{value:.8f}" for value in values[:VALUES].tolist())]
        )


if __name__ == "__main__":
    with torch.inference_mode():
        main()
