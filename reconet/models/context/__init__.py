"""Context modules, by the name that recipes use.

base.py       the contract: ContextModule, ContextInfo, and types for contexts that show attention
low_rank.py   tensors of low rank, and what a context offers that is made of one
<name>.py     one method each, with all that is known about it in its ContextInfo

To add one, write a file here and add one line to CONTEXTS. Nothing else needs to know the new name.
tests/models/context/test_contract.py then checks it.
"""

from reconet.models.context.a2net import A2Net
from reconet.models.context.acfnet import ACFNet
from reconet.models.context.apcnet import APCNet
from reconet.models.context.asymmetric import Asymmetric
from reconet.models.context.base import ContextInfo, ContextModule
from reconet.models.context.cbam import CBAM
from reconet.models.context.ccnet import CCNet
from reconet.models.context.cfnet import CFNet
from reconet.models.context.danet import DANet
from reconet.models.context.deeplabv3 import DeepLabV3
from reconet.models.context.deeplabv3plus import DeepLabV3Plus
from reconet.models.context.dmnet import DMNet
from reconet.models.context.emanet import EMANet
from reconet.models.context.encnet import EncNet
from reconet.models.context.fcn import FCN
from reconet.models.context.latentgnn import LatentGNN
from reconet.models.context.non_local import NonLocal
from reconet.models.context.parsenet import ParseNet
from reconet.models.context.plain import Plain
from reconet.models.context.psanet import PSANet
from reconet.models.context.pspnet import PSPNet
from reconet.models.context.reconet import RecoNet
from reconet.models.context.reconet_plus import RecoNetPlus
from reconet.models.context.senet import SENet

__all__ = ["CONTEXTS", "ContextInfo", "ContextModule"]

CONTEXTS: dict[str, type[ContextModule]] = {
    "a2net": A2Net,
    "acfnet": ACFNet,
    "apcnet": APCNet,
    "asymmetric": Asymmetric,
    "cbam": CBAM,
    "ccnet": CCNet,
    "cfnet": CFNet,
    "danet": DANet,
    "deeplabv3": DeepLabV3,
    "deeplabv3plus": DeepLabV3Plus,
    "dmnet": DMNet,
    "emanet": EMANet,
    "encnet": EncNet,
    "fcn": FCN,
    "latentgnn": LatentGNN,
    "nonlocal": NonLocal,
    "parsenet": ParseNet,
    "plain": Plain,
    "psanet": PSANet,
    "pspnet": PSPNet,
    "reconet": RecoNet,
    "reconet_plus": RecoNetPlus,
    "senet": SENet,
}
