"""`torch.npu`, `Tensor.npu` and `Module.npu`, put into torch when it is imported.

The light way: a tensor stays where it is, in memory that the simulated device reads, and prints
`cpu`; a module is marked, and its calls run on the device. No device of torch's own is made up, for
torch's exporters are silently wrong about such ones.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ge.runtime.device import DEVICE


def autoload() -> None:
    """Called by torch at the end of its import, through the entry point `torch.backends`."""
    import torch

    if "torch.npu" in sys.modules:
        return
    torch.npu = sys.modules["torch.npu"] = _module()
    torch.Tensor.npu = _tensor_npu
    torch.nn.Module.npu = _module_npu


def _tensor_npu(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    """The tensor: the device reads it where it is."""
    return self


def _module_npu(self: Any, device: Any = None) -> Any:
    """The module; from now on its calls run on the device."""
    from ge.runtime.torch_optimized import move_to_device

    return move_to_device(self)


def _module() -> ModuleType:
    npu = ModuleType("torch.npu", "The simulated NPU.")
    for function in FUNCTIONS:
        setattr(npu, function.__name__, function)
    return npu


def is_available() -> bool:
    """Always: it is simulated."""
    return True


def device_count() -> int:
    """How many devices there are."""
    return 1


def current_device() -> int:
    """The number of the device in use."""
    return 0


def set_device(device: Any) -> None:
    """Does nothing: there is one device."""


def get_device_name(device: Any = None) -> str:
    """What the device is called."""
    return "Ascend-like NPU, simulated"


def synchronize(device: Any = None) -> None:
    """Does nothing: a call is over when it comes back."""


def empty_cache() -> None:
    """Does nothing: memory goes with the programs and tensors that hold it."""


def memory_allocated(device: Any = None) -> int:
    """Bytes of device memory that programs and their tensors hold."""
    return DEVICE.bytes


def max_memory_allocated(device: Any = None) -> int:
    """The most that they have held."""
    return DEVICE.most_bytes


def launch_count() -> int:
    """How many programs or kernels the device has been given."""
    return DEVICE.launches


FUNCTIONS = (
    is_available,
    device_count,
    current_device,
    set_device,
    get_device_name,
    synchronize,
    empty_cache,
    memory_allocated,
    max_memory_allocated,
    launch_count,
)
