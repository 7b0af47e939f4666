"""Segment images with trained networks.

predictor.py    one network as a function: images in, labels out
own_network.py  a network that was built in Python, as a Predictor or a file
network.py      find a network by its path or name, and open it
shipped.py      the networks that come with the package
fast.py         open a network in int8 where that keeps its labels
backends.py     run exported networks: ONNX Runtime, OpenVINO, torch.export
protocol.py     how an image is shown to a network: scales, windows, mirror images
windows.py      probabilities of an image from those of its windows
video.py        segment a video, or what a camera sees
folder.py       predict many images into a folder
plan.py         the images that arguments name, the names of their files, which are done
"""

from reconet.inference.folder import FolderResult, predict_folder
from reconet.inference.network import (
    FoundNetwork,
    Network,
    find_network,
    make_forward,
    open_network,
    shipped_networks,
)
from reconet.inference.plan import is_video
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
    "find_network",
    "is_video",
    "make_forward",
    "open_network",
    "predict_folder",
    "predict_labels",
    "shipped_networks",
    "whole_image",
]
