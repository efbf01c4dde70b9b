"""Weights: bytes named by their digest, outside the IR, with the `.weights` file they travel in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdsl.dialect_interfaces import DialectInterface
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Data, Dialect
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from ge.dialects import weights_file
from ge.dialects.attributes import IntsAttr
from ge.dialects.diagnostics import InputError
from ge.dialects.weights_file import DIGEST_CHARS, INLINE_BYTES, WeightsFile, digest_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGEST = re.compile(f"[0-9a-f]{{{DIGEST_CHARS}}}").fullmatch


class Blob:
    """Bytes known by digest and length; the bytes themselves may come later, from a file."""

    __slots__ = ("_bytes", "_checked", "digest", "nbytes")

    def __init__(self, digest: str, nbytes: int, data: memoryview | None = None) -> None:
        self.digest = digest
        self.nbytes = nbytes
        self._bytes = data
        self._checked = False

    @classmethod
    def of(cls, data: memoryview) -> Blob:
        """A blob of bytes at hand."""
        blob = cls(digest_of(data), data.nbytes, data)
        blob._checked = True
        return blob

    def fill(self, data: memoryview) -> None:
        """Give the bytes that belong to the digest; they are checked when first read."""
        if self._bytes is None:
            self._bytes = data

    @property
    def is_here(self) -> bool:
        """Whether the bytes are known, not only their digest."""
        return self._bytes is not None

    @property
    def data(self) -> memoryview:
        """The bytes; raises InputError when no file gave them or they are not what was named."""
        if self._bytes is None:
            raise InputError(f"the values of constant {self.digest} must be at hand, got no file")
        if not self._checked:
            if self._bytes.nbytes != self.nbytes or digest_of(self._bytes) != self.digest:
                raise InputError(f"constant {self.digest} must have that digest, its bytes differ")
            self._checked = True
        return self._bytes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blob) and (self.digest, self.nbytes) == (
            other.digest,
            other.nbytes,
        )

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Blob({self.digest}, {self.nbytes})"


class WeightStore(DialectInterface):
    """Digest -> Blob, one for a context: where parsed digests meet the bytes of a file."""

    def __init__(self) -> None:
        self.blobs: dict[str, Blob] = {}

    def blob(self, digest: str, nbytes: int) -> Blob:
        """The blob of a digest, the same object for every mention."""
        return self.blobs.setdefault(digest, Blob(digest, nbytes))

    def attach(self, path: Path) -> None:
        """Give every mentioned digest that the file holds its bytes."""
        for digest, data in read_weights(path).items():
            self.blob(digest, data.nbytes).fill(data)


@irdl_attr_definition
class WeightsAttr(Data[Blob]):
    """`#ge.weights<"0x00FF">` for small constants, `#ge.weights<"DIGEST", BYTES>` for others."""

    name = "ge.weights"

    @classmethod
    def of(cls, array: NDArray[Any]) -> WeightsAttr:
        """The bytes of an array, row-major and little-endian; shares its memory where it can."""
        import numpy as np

        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        return cls(Blob.of(flat.data))

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Blob:
        with parser.in_angle_brackets():
            text = parser.parse_str_literal()
            if text.startswith("0x"):
                try:
                    return Blob.of(memoryview(bytes.fromhex(text[2:])))
                except ValueError:
                    parser.raise_error("an inline constant must be hex digits after '0x'")
            if _DIGEST(text) is None:
                parser.raise_error(f"a digest must be {DIGEST_CHARS} hexadecimal digits")
            parser.parse_punctuation(",")
            nbytes = parser.parse_integer(allow_boolean=False, allow_negative=False)
        dialect = parser.ctx.get_dialect("ge")
        store = dialect.get_interface(WeightStore)
        return store.blob(text, nbytes) if store else Blob(text, nbytes)

    def print_parameter(self, printer: Printer) -> None:
        blob = self.data
        with printer.in_angle_brackets():
            if blob.is_here and blob.nbytes <= INLINE_BYTES:
                printer.print_string(f'"0x{blob.data.hex().upper()}"')
            else:
                printer.print_string(f'"{blob.digest}", {blob.nbytes}')


def make_weights_dialect() -> Dialect:
    """The dialect `ge`, with a store of its own: register this factory in each context."""
    return Dialect("ge", [], [WeightsAttr, IntsAttr], [WeightStore()])


def to_array(attr: WeightsAttr, type_: TensorType[Attribute]) -> NDArray[Any]:
    """The values as an array of that type, without a copy."""
    import numpy as np

    from ge.dialects import dtypes

    dtype = dtypes.of_ir(type_.element_type).numpy
    return np.frombuffer(attr.data.data, dtype=dtype).reshape(type_.get_shape())


def write_weights(path: Path, blobs: Iterable[Blob]) -> None:
    """Write blobs as a weights file; raises InputError where that cannot be."""
    weights_file.write_weights(path, ((b.digest, b.data) for b in blobs))


def read_weights(path: Path) -> dict[str, memoryview]:
    """Digest -> bytes of a weights file, mapped and not copied; a Blob checks them."""
    return WeightsFile(path).unchecked
