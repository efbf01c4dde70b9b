"""The device that programs run on, seen from outside: what it launched and what it holds."""

from __future__ import annotations

from weakref import WeakKeyDictionary


class Counters:
    """Launches so far, and the bytes that programs and their tensors take in device memory."""

    def __init__(self) -> None:
        self.launches = 0
        self.most_bytes = 0
        self._held: WeakKeyDictionary[object, int] = WeakKeyDictionary()

    @property
    def bytes(self) -> int:
        """What is held now: it goes with its owner."""
        return sum(self._held.values())

    def hold(self, owner: object, count: int) -> None:
        """Count bytes as long as `owner` lives."""
        self._held[owner] = count
        self.most_bytes = max(self.most_bytes, self.bytes)

    def launched(self, count: int) -> None:
        """Kernels or whole programs that were started."""
        self.launches += count


DEVICE = Counters()
"""The one simulated device of this process."""
