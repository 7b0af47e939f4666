"""Segment images with trained networks.

predictor.py    one network as a function: images in, labels out
own_network.py  a network that was built in Python, as a Predictor or a file
by_name.py      find a network by its path or its name
network.py      open a network, whatever file it is in
fast.py         open a network the fastest way that keeps its labels
backends.py     run exported networks: ONNX Runtime, OpenVINO, torch.export
probe.py        run a stranger's graph once in a process of its own, with limits
protocol.py     how an image is shown to a network: scales, windows, mirror images
windows.py      probabilities of an image from those of its windows
resampling.py   read images and feature maps between their pixels
video.py        segment a video, or what a camera sees
folder/         predict many images into a folder
"""

from reconet.inference.by_name import (
    FoundNetwork,
    describe_shipped,
    find_network,
    shipped_networks,
)
from reconet.inference.folder import FolderResult, predict_folder
from reconet.inference.network import Network, make_forward, open_network
from reconet.inference.predictor import Prediction, Predictor
from reconet.inference.protocol import Protocol
from reconet.inference.windows import Forward, predict_labels, whole_image

__all__ = [
    "FolderResult",
    "Forward",
    "FoundNetwork",
    "Network",
    "Prediction",
    "Predictor",
    "Protocol",
    "describe_shipped",
    "find_network",
    "make_forward",
    "open_network",
    "predict_folder",
    "predict_labels",
    "shipped_networks",
    "whole_image",
]
