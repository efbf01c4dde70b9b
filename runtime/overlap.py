"""Whether two strided byte patterns share a byte, exactly and without listing bytes."""

from __future__ import annotations

from functools import cached_property, lru_cache


class Pattern:
    """`count` copies of `inner`, `step` bytes apart; the innermost is a run of bytes."""

    def __init__(self, count: int, step: int, inner: Pattern | None) -> None:
        self.count = count
        self.step = step
        self.inner = inner

    @staticmethod
    def of(run: int, size: tuple[int, ...], strides: tuple[int, ...]) -> Pattern:
        """The bytes of a tile with elements of `run` bytes, strides in bytes.

        Dimensions that leave no gap become one run, so that equal bytes mostly have equal form.
        """
        dims = sorted((abs(s), n) for n, s in zip(size, strides, strict=True) if n > 1 and s)
        pattern = Pattern(run, 1, None)
        for step, count in dims:
            if pattern.inner is None and step <= pattern.extent:
                pattern = Pattern(pattern.extent + (count - 1) * step, 1, None)
            else:
                pattern = Pattern(count, step, pattern)
        return pattern

    @cached_property
    def extent(self) -> int:
        """Bytes from the first to the last."""
        if self.inner is None:
            return self.count
        return (self.count - 1) * self.step + self.inner.extent


@lru_cache(maxsize=1 << 16)
def touch(gap: int, a: Pattern, b: Pattern) -> bool:
    """Whether `a`, and `b` placed `gap` bytes behind the start of `a`, share a byte.

    Peels off the widest step: only those copies whose bounds meet are looked at further. Where
    both have the same step, only the difference of their positions matters.
    """
    if a.inner is None and b.inner is None:
        return -b.extent < gap < a.extent
    if a.inner is None or (b.inner is not None and b.step > a.step):
        return touch(-gap, b, a)
    copies, other = 1, b
    if b.inner is not None and b.step == a.step:
        copies, other = b.count, b.inner
    first = max(1 - copies, (gap - a.inner.extent) // a.step + 1)
    last = min(a.count - 1, (gap + other.extent - 1) // a.step)
    return any(touch(gap - k * a.step, a.inner, other) for k in range(first, last + 1))
