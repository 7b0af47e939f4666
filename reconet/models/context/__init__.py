"""Context modules, by the name that recipes use. Their contract is in base.py.

To add one: write a file here, add one line below. tests/models/test_contract.py then checks its
shapes, gradients, state and export; nothing else needs to know the new name.
"""

from reconet.models.context.apcnet import APCNet
from reconet.models.context.base import ContextModule
from reconet.models.context.cbam import CBAM
from reconet.models.context.deeplabv3 import DeepLabV3
from reconet.models.context.deeplabv3plus import DeepLabV3Plus
from reconet.models.context.dmnet import DMNet
from reconet.models.context.encnet import EncNet
from reconet.models.context.fcn import FCN
from reconet.models.context.non_local import NonLocal
from reconet.models.context.parsenet import ParseNet
from reconet.models.context.plain import Plain
from reconet.models.context.psanet import PSANet
from reconet.models.context.pspnet import PSPNet
from reconet.models.context.reconet import RecoNet
from reconet.models.context.senet import SENet

CONTEXTS: dict[str, type[ContextModule]] = {
    "apcnet": APCNet,
    "cbam": CBAM,
    "deeplabv3": DeepLabV3,
    "deeplabv3plus": DeepLabV3Plus,
    "dmnet": DMNet,
    "encnet": EncNet,
    "fcn": FCN,
    "nonlocal": NonLocal,
    "parsenet": ParseNet,
    "plain": Plain,
    "psanet": PSANet,
    "pspnet": PSPNet,
    "reconet": RecoNet,
    "senet": SENet,
}
