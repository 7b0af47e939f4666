"""Let the pretend GPUs of several processes exchange tensors: gloo does it, on the CPU."""

from collections.abc import Iterator
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.nn.parallel import DistributedDataParallel as Ddp
from torch.nn.parallel import distributed


def nccl_by_gloo(gpu: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield what lets gloo carry the tensors of several GPUs."""

    def join(backend: str, *args: Any, original: Any = dist.init_process_group, **kw: Any) -> None:
        original("gloo" if backend == "nccl" else backend, *args, **kw)

    def distribute(self: Any, *args: Any, original: Any = Ddp.__init__, **kw: Any) -> None:
        with gpu.enter():  # its buckets are on the GPU
            original(self, *args, **kw)

    yield dist, {"init_process_group": join}
    yield Ddp, {"__init__": distribute}
    # Two that look into the memory of tensors, for what does not matter here.
    yield distributed, {"_verify_param_shape_across_processes": lambda group, parameters: None}
    yield dist.Reducer, {"_rebuild_buckets": lambda self: False}  # type: ignore[attr-defined]
    # Objects travel as tensors of the GPU.
    yield distributed_c10d, {"_get_object_coll_device": lambda group=None: str(gpu.device)}
