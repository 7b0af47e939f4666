"""Context modules, by the name that recipes use. Their contract is in base.py.

To add one: write a file here, add one line below. tests/models/test_contract.py then checks its
shapes, gradients, state and export; nothing else needs to know the new name.
"""

from reconet.models.context.a2net import A2Net
from reconet.models.context.acfnet import ACFNet
from reconet.models.context.asymmetric import Asymmetric
from reconet.models.context.base import ContextModule
from reconet.models.context.ccnet import CCNet
from reconet.models.context.cfnet import CFNet
from reconet.models.context.danet import DANet
from reconet.models.context.emanet import EMANet
from reconet.models.context.fcn import FCN
from reconet.models.context.latentgnn import LatentGNN
from reconet.models.context.plain import Plain
from reconet.models.context.reconet import RecoNet

CONTEXTS: dict[str, type[ContextModule]] = {
    "a2net": A2Net,
    "acfnet": ACFNet,
    "asymmetric": Asymmetric,
    "ccnet": CCNet,
    "cfnet": CFNet,
    "danet": DANet,
    "emanet": EMANet,
    "fcn": FCN,
    "latentgnn": LatentGNN,
    "plain": Plain,
    "reconet": RecoNet,
}
