"""What an instruction body may touch. The simulator implements it; the table only names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ge.dialects.dtypes import DType
    from ge.dialects.npu.operands import Addr, Reg
    from ge.dialects.npu.places import Unit
    from ge.dialects.npu.routine import Routine

    Array = NDArray[Any]
    Sizes = tuple[int, ...]


class State(Protocol):
    """One core: its memories, its registers and its place in the code.

    Sizes and strides count elements, outermost dimension first; a stride of 0 repeats. Addresses
    that reach a body are absolute.
    """

    def read(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType) -> Array:
        """A strided view that the instruction reads."""
        ...

    def out(self, at: Addr, size: Sizes, strides: Sizes, dtype: DType) -> Array:
        """A strided view that the instruction writes, whole."""
        ...

    def set(self, register: Reg, value: int) -> None:
        """Write a scalar register: 64 bits, wrapping."""
        ...

    def jump(self, place: int) -> None:
        """Go on at instruction number `place`."""
        ...

    def loop(self, trips: int, end: int) -> None:
        """Run the code from the next instruction up to number `end` `trips` times."""
        ...

    def call(self, place: int) -> None:
        """Go on at instruction number `place` until `leave`."""
        ...

    def leave(self) -> None:
        """Go back behind the call that was made last."""
        ...

    def stop(self) -> None:
        """End this core's program."""
        ...

    def signal(self, source: Unit, target: Unit, flag: int) -> None:
        """Set a flag; setting one that is set is a fault."""
        ...

    def wait(self, source: Unit, target: Unit, flag: int) -> None:
        """Wait for a flag and clear it."""
        ...

    def drain(self) -> None:
        """Wait until every unit of this core is idle."""
        ...

    def arrive(self) -> None:
        """Tell the other cores that all work issued so far will be done before they pass."""
        ...

    def meet(self) -> None:
        """Wait until every core has arrived as often as this one."""
        ...

    def launch(self) -> None:
        """End one launch of the host and begin the next: all cores meet, the host dispatches."""
        ...

    def host(self, routine: Routine, places: Sizes) -> None:
        """Compute a routine of the AI CPU on tensors at these addresses of device memory."""
        ...

    def share(self, cores: int) -> None:
        """Say how many cores share the memory's bandwidth from here on."""
        ...

    @property
    def core(self) -> int:
        """This core's number."""
        ...

    @property
    def cores(self) -> int:
        """How many cores run the program."""
        ...
