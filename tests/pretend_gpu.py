"""Pretend that this machine has a GPU: tensors compute on the CPU, and refuse to be mixed with it.

    with pretend_gpu() as gpu:
        train(..., device="auto")  # "auto" finds the GPU, whose tensors say `cuda:0`
    assert not gpu.reads

- Tensors on the GPU and on the CPU do not mix, except where CUDA allows it: single numbers in
  pointwise operators, CPU indices, copies. Anything else raises `MixedDevicesError`.
- `.numpy()` of a tensor on the GPU raises TypeError, as torch does.
- `gpu.reads` counts how often the CPU waited to read from the GPU (`.item()`, `.tolist()`,
  `.cpu()`, `bool()`, boolean masks, `nonzero`), by the line of reconet that did it, such as
  "engine/loop.py:91". `gpu.waits` counts calls of torch.cuda.synchronize alike. `clear()` them
  between two steps. What a test reads by itself does not count.
- Several processes: set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT in each, then
  `with pretend_gpu(count=2) as gpu, join_processes() as processes`. Collectives of CPU tensors
  raise, because NCCL has none. See tests/pretend_nccl.py.
- `pretend_gpu("mps")` calls itself `mps:0`, and refuses float64.

Autocast uses torch's lists for CPUs. Random numbers are those of the CPU.
"""

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import reconet
from tests.pretend_nccl import nccl_by_gloo

PACKAGE = Path(reconet.__file__).parent
ATEN = torch.ops.aten
COPIES = (ATEN.copy_.default, ATEN._to_copy.default)
INDEXED = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
NUMBERS = ("masked_fill", "masked_fill_", "where", "fill", "fill_", "lift_fresh")
FREE_BYTES = 8 * 10**9


class MixedDevicesError(RuntimeError):
    """Tensors of the GPU and of the CPU met in one operator."""


class Gpu:
    """What happened on the pretend GPU."""

    def __init__(self, kind: str) -> None:
        self.device = torch.device(kind, 0)
        self.reads: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.pinned = 0  # tensors made in pinned memory
        self._here = threading.local()

    @property
    def inside(self) -> bool:
        """Tell whether an operator on the GPU runs. What torch makes meanwhile is on the GPU."""
        return getattr(self._here, "inside", False)

    @contextmanager
    def enter(self, inside: bool = True) -> Iterator[None]:
        before, self._here.inside = self.inside, inside
        try:
            yield
        finally:
            self._here.inside = before

    def is_here(self, device: Any) -> bool:
        """Tell whether a function was asked for a tensor on the GPU."""
        if device is None:
            return False
        return isinstance(device, int) or torch.device(device).type == self.device.type

    def count(self, counter: Counter[str]) -> None:
        frame = sys._getframe(1)
        while frame is not None:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(PACKAGE):
                counter[f"{path.relative_to(PACKAGE)}:{frame.f_lineno}"] += 1
                return
            frame = frame.f_back  # type: ignore[assignment]


class GpuTensor(Tensor):
    """A tensor of the pretend GPU. Its values are in `inner`; it has no memory of its own."""

    inner: Tensor  # type: ignore[assignment]
    gpu: Gpu

    @staticmethod
    def __new__(cls, inner: Tensor, gpu: Gpu) -> "GpuTensor":
        if gpu.device.type == "mps" and inner.dtype == torch.float64:
            raise TypeError("Cannot convert a MPS Tensor to float64 dtype")
        own = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            dtype=inner.dtype,
        )
        own.inner, own.gpu = inner.detach(), gpu
        return own

    # The mode sees all functions.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        gpu = next(x.gpu for x in tree_leaves((args, kwargs)) if isinstance(x, GpuTensor))
        return run(gpu, func, args, kwargs or {})

    def __deepcopy__(self, memo: dict[int, Any]) -> "GpuTensor":
        if id(self) not in memo:
            copy = GpuTensor(self.inner.clone(), self.gpu).requires_grad_(self.requires_grad)
            copy.__dict__.update({k: v for k, v in self.__dict__.items() if k == "_is_param"})
            memo[id(self)] = copy
        return memo[id(self)]  # type: ignore[no-any-return]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.cpu().__reduce_ex__(protocol)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else repr(self)

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        return f"GpuTensor({self.inner!r})"


def run(gpu: Gpu, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator on the CPU. Its results are on the GPU if its tensors are."""
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    ours = [x for x in tensors if isinstance(x, GpuTensor)]
    if func.namespace == "c10d":
        if len(ours) < len(tensors) and not gpu.inside and "barrier" not in func._schema.name:
            raise MixedDevicesError(f"NCCL has no {func} of tensors of the CPU")
    elif ours and len(ours) < len(tensors):
        _refuse_mix(func, args, [x for x in tensors if not isinstance(x, GpuTensor)])
    if ours and _waits(func, args):
        gpu.count(gpu.reads)
    if kwargs.get("pin_memory"):
        gpu.pinned += 1
        kwargs = kwargs | {"pin_memory": False}
    args_, kwargs_ = tree_map(_inner, args), tree_map(_inner, kwargs)
    result = func(*args_, **kwargs_)
    returns = func._schema.returns
    if len(returns) == 1 and returns[0].alias_info is not None and returns[0].alias_info.is_write:
        return args[0]  # changed in place
    if func.namespace == "c10d" or not (ours or (gpu.inside and not tensors)):
        return result
    return tree_map(lambda x: _wrap(x, gpu), result)


def _inner(x: Any) -> Any:
    return x.inner if isinstance(x, GpuTensor) else x


def _wrap(x: Any, gpu: Gpu) -> Any:
    plain = isinstance(x, Tensor) and not isinstance(x, GpuTensor) and not x.is_meta
    return GpuTensor(x, gpu) if plain else x


def _refuse_mix(func: Any, args: Any, plain: list[Tensor]) -> None:
    """Raise unless CUDA, too, takes these tensors of the CPU."""
    name = func._schema.name.removeprefix("aten::")
    number = torch.Tag.pointwise in func.tags or name in NUMBERS
    if func in COPIES or (number and all(x.dim() == 0 and not x.is_meta for x in plain)):
        return
    if name in INDEXED and isinstance(args[0], GpuTensor):
        values = args[2:3] if "put" in name else ()  # what is assigned; indices may be anywhere
        if all(isinstance(x, GpuTensor) or not x.dim() for x in values):
            return
    found = ", ".join(f"{tuple(x.shape)} on {x.device}" for x in plain)
    raise MixedDevicesError(f"Expected all tensors on one device, but {name} gets {found}")


def _waits(func: Any, args: Any) -> bool:
    """Tell whether the CPU needs values of the GPU to go on."""
    if func is ATEN.copy_.default:
        return not isinstance(args[0], GpuTensor)
    if func._schema.name.removeprefix("aten::") in INDEXED:
        return any(x.dtype in (torch.bool, torch.uint8) for x in args[1] if x is not None)
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & {*func.tags})


class _Operators(TorchDispatchMode):
    """Sees the operators without a tensor of the GPU: those that make one."""

    gpu: Gpu

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the compiler takes seconds to import

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(self.gpu, func, args, kwargs or {})


class _Functions(TorchFunctionMode):
    """Sees what Python calls: here a tensor says where it is, and moves.

    For C++, all is on the CPU.
    """

    gpu: Gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs = self.gpu, kwargs or {}
        if func is Tensor.to or func is Tensor.cpu or func is Tensor.cuda:
            return _move(gpu, func, *args, **kwargs)
        first = args[0] if args else None
        if isinstance(first, GpuTensor):
            if func in ANSWERS:
                return ANSWERS[func](gpu)
            if func is Tensor.numpy or func is Tensor.__array__:
                raise TypeError(f"can't convert {gpu.device} device type tensor to numpy")
            if func is Tensor.tolist:
                return _move(gpu, Tensor.cpu, first).tolist()
            if func is Tensor.backward:
                with self, gpu.enter():  # our own functions run backward, too
                    return torch.autograd.backward(args, kwargs.pop("gradient", None), **kwargs)
        if func is Tensor.new_tensor and isinstance(first, GpuTensor):
            kwargs = {"device": gpu.device, "dtype": first.dtype} | kwargs
        here = gpu.is_here(kwargs.get("device"))
        elsewhere = kwargs.get("device") is not None and not here
        if here and kwargs.get("generator"):
            raise RuntimeError(f"Expected a {gpu.device.type} generator")
        ours = any(isinstance(x, GpuTensor) for x in tree_leaves((args, kwargs)))
        if here:
            kwargs = kwargs | {"device": "cpu"}
        with gpu.enter(here or (not elsewhere and (ours or gpu.inside))):
            result = func(*args, **kwargs)
        return _wrap(result, gpu) if here else result


ANSWERS: Any = {
    Tensor.device.__get__: lambda gpu: gpu.device,
    Tensor.is_cuda.__get__: lambda gpu: gpu.device.type == "cuda",  # type: ignore[attr-defined]
    Tensor.is_mps.__get__: lambda gpu: gpu.device.type == "mps",  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: lambda gpu: False,  # type: ignore[attr-defined]
    Tensor.get_device: lambda gpu: gpu.device.index,
    Tensor.is_pinned: lambda gpu: False,
}


def _move(gpu: Gpu, func: Any, x: Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Tensor:
    """Do `to`, `cpu` and `cuda`."""
    if func is not Tensor.to:
        kwargs, args, copy = {}, (torch.device("cpu") if func is Tensor.cpu else gpu.device,), False
    if args and isinstance(args[0], Tensor):
        home = gpu.device if isinstance(args[0], GpuTensor) else args[0].device
        args = (home, args[0].dtype, *args[1:])
    device, dtype, later, layout = torch._C._nn._parse_to(*args, **kwargs)
    was, wanted = isinstance(x, GpuTensor), device is not None and gpu.is_here(device)
    if device is not None and was and device.type == "cpu":
        if not later:
            gpu.count(gpu.reads)
        x = _Move.apply(x, None)  # type: ignore[no-untyped-call]
    elif wanted and not was and not x.is_meta:
        x = _Move.apply(x.to(dtype or x.dtype), gpu)  # type: ignore[no-untyped-call]
    elif wanted and x.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    elif device is not None and not wanted and device != x.device:
        return x.to(device, dtype or x.dtype)  # such as meta
    options = {} if layout is None else {"memory_format": layout}
    with gpu.enter(isinstance(x, GpuTensor)):
        result: Tensor = x.to(dtype or x.dtype, copy=copy, **options)  # type: ignore[call-overload]
    return result


class _Move(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gpu: Gpu | None) -> Tensor:
        ctx.gpu = x.gpu if isinstance(x, GpuTensor) else None
        values = _inner(x).detach().clone()
        return values if gpu is None else GpuTensor(values, gpu)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _inner(gradients[0]) if ctx.gpu is None else _wrap(gradients[0], ctx.gpu), None


@contextmanager
def pretend_gpu(kind: str = "cuda", *, count: int = 1, bf16: bool = True) -> Iterator[Gpu]:
    """Pretend that there is a GPU (or several for several processes), with or without bf16."""
    gpu = Gpu(kind)
    thread_runs = threading.Thread.run

    def modes() -> ExitStack:
        stack, operators, functions = ExitStack(), _Operators(), _Functions()  # type: ignore[no-untyped-call]
        operators.gpu = functions.gpu = gpu
        stack.enter_context(operators)
        stack.enter_context(functions)
        return stack

    def run_thread(self: threading.Thread) -> None:
        with modes():
            thread_runs(self)

    with ExitStack() as stack:
        for target, changes in _changes(gpu, count, bf16):
            stack.enter_context(patch.multiple(target, **changes))
        stack.enter_context(patch.object(threading.Thread, "run", run_thread))
        stack.enter_context(modes())
        yield gpu


def _changes(gpu: Gpu, count: int, bf16: bool) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield what torch says of a machine with such a GPU."""

    def as_cpu(function: Any) -> Any:
        """Let a function that is asked about the GPU answer for the CPU."""
        return lambda kind, *more: function("cpu" if kind == gpu.device.type else kind, *more)

    class Autocast(torch.autocast):
        def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
            super().__init__("cpu" if kind == gpu.device.type else kind, *args, **kwargs)

    names = ("is_autocast_enabled", "get_autocast_dtype")
    yield torch, {"autocast": Autocast, **{name: as_cpu(getattr(torch, name)) for name in names}}
    yield torch.amp, {"is_autocast_available": as_cpu(torch.amp.is_autocast_available)}
    yield torch.__future__, {"get_overwrite_module_params_on_conversion": lambda: True}
    if gpu.device.type == "mps":
        yield torch.backends.mps, {"is_available": lambda: True}
        yield torch.mps, {"synchronize": lambda: gpu.count(gpu.waits)}
        return
    cuda: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "is_available": lambda: True,
        "current_stream": MagicMock(),  # all is done at once, so its events have happened
        "is_initialized": lambda: True,
        "manual_seed_all": lambda seed: None,
        "device_count": lambda: count,
        "current_device": lambda: gpu.device.index,
        "set_device": lambda device: setattr(gpu, "device", device),
        "synchronize": lambda device=None: gpu.count(gpu.waits),
        "max_memory_allocated": lambda device=None: 10**6,
        "mem_get_info": lambda device=None: (FREE_BYTES, FREE_BYTES),
        "get_device_name": lambda device=None: "Pretend GPU",
        "is_bf16_supported": lambda including_emulation=True: bf16 or including_emulation,
    }
    yield torch.cuda, cuda
    yield from nccl_by_gloo(gpu)
