"""What each operator is in the language of TorchScript: one row an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import SSAValue

from ge.dialects import dtypes
from ge.dialects.diagnostics import UnsupportedError
from ge.dialects.graph.base import GraphOp, dims, type_of
from ge.dialects.graph.ops import (
    activation,
    attention,
    binary,
    conv,
    index,
    layout,
    linear,
    norm,
    pool,
    reduce,
    trigonometry,
    unary,
)

Shape = tuple[int, ...]


class Operands:
    """An operation while it is written: its operands' names, its attributes, shapes."""

    def __init__(self, op: GraphOp, names: Mapping[SSAValue, str]) -> None:
        self.op = op
        self.attrs = op.attrs
        self.names = ["None" if v is None else names[v] for v in op.arguments]
        self.shapes = [() if v is None else dims(type_of(v)) for v in op.arguments]
        self.out = dims(type_of(op.results[0]))

    def __getitem__(self, name: str) -> Any:
        return self.attrs[name]

    @property
    def rank(self) -> int:
        """Dimensions of the first operand."""
        return len(self.shapes[0])

    def dtype(self) -> str:
        """The element type of the first result."""
        return torch_name(dtypes.of_ir(type_of(self.op.results[0]).element_type))


Write = Callable[[Operands], str]
EXPRESSIONS: dict[type[GraphOp], Write] = {}


def torch_name(dtype: dtypes.DType) -> str:
    """`torch.float32` for f32."""
    return f"torch.{dtype.numpy_name}"


def row(*ops: type[GraphOp]) -> Callable[[Write], Write]:
    """Register how an operator is written."""

    def register(write: Write) -> Write:
        EXPRESSIONS.update(dict.fromkeys(ops, write))
        return write

    return register


def _calls(template: str) -> Write:
    return lambda o: template.format(*o.names, **o.attrs)


_SIMPLE: dict[Any, str] = {
    binary.AddOp: "{0} + {1}",
    binary.SubOp: "{0} - {1}",
    binary.MulOp: "{0} * {1}",
    binary.PowOp: "torch.pow({0}, {1})",
    binary.MaxOp: "torch.maximum({0}, {1})",
    binary.MinOp: "torch.minimum({0}, {1})",
    binary.EqualOp: "{0} == {1}",
    binary.LessOp: "{0} < {1}",
    binary.GreaterOp: "{0} > {1}",
    binary.LessOrEqualOp: "{0} <= {1}",
    binary.GreaterOrEqualOp: "{0} >= {1}",
    binary.AndOp: "torch.logical_and({0}, {1})",
    binary.OrOp: "torch.logical_or({0}, {1})",
    binary.XorOp: "torch.logical_xor({0}, {1})",
    binary.WhereOp: "torch.where({0}, {1}, {2})",
    unary.NegOp: "-{0}",
    unary.AbsOp: "torch.abs({0})",
    unary.ExpOp: "torch.exp({0})",
    unary.LogOp: "torch.log({0})",
    unary.SqrtOp: "torch.sqrt({0})",
    unary.ReciprocalOp: "torch.reciprocal({0})",
    unary.SignOp: "torch.sign({0})",
    unary.FloorOp: "torch.floor({0})",
    unary.CeilOp: "torch.ceil({0})",
    unary.RoundOp: "torch.round({0})",
    unary.ErfOp: "torch.erf({0})",
    unary.NotOp: "torch.logical_not({0})",
    unary.IsNaNOp: "torch.isnan({0})",
    unary.IdentityOp: "{0}",
    trigonometry.SinOp: "torch.sin({0})",
    trigonometry.CosOp: "torch.cos({0})",
    trigonometry.TanhOp: "torch.tanh({0})",
    trigonometry.TanOp: "torch.tan({0})",
    trigonometry.AsinOp: "torch.asin({0})",
    trigonometry.AcosOp: "torch.acos({0})",
    trigonometry.AtanOp: "torch.atan({0})",
    trigonometry.SinhOp: "torch.sinh({0})",
    trigonometry.CoshOp: "torch.cosh({0})",
    trigonometry.AsinhOp: "torch.asinh({0})",
    trigonometry.AcoshOp: "torch.acosh({0})",
    trigonometry.AtanhOp: "torch.atanh({0})",
    activation.ReluOp: "torch.relu({0})",
    activation.LeakyReluOp: "torch.nn.functional.leaky_relu({0}, {alpha})",
    activation.EluOp: "torch.nn.functional.elu({0}, {alpha})",
    activation.CeluOp: "torch.celu({0}, {alpha})",
    activation.SeluOp: "torch.nn.functional.elu({0}, {alpha}) * {gamma}",
    activation.ThresholdedReluOp: "torch.threshold({0}, {alpha}, 0.0)",
    activation.SigmoidOp: "torch.sigmoid({0})",
    activation.HardSigmoidOp: "torch.clamp({0} * {alpha} + {beta}, 0.0, 1.0)",
    activation.HardSwishOp: "torch.nn.functional.hardswish({0})",
    activation.SoftplusOp: "torch.nn.functional.softplus({0})",
    activation.SoftsignOp: "{0} / (1.0 + torch.abs({0}))",
    activation.MishOp: "torch.nn.functional.mish({0})",
    activation.SwishOp: "{0} * torch.sigmoid({0} * {alpha})",
    activation.PReluOp: "torch.relu({0}) - torch.relu(-{0}) * {1}",
    linear.MatMulOp: "torch.matmul({0}, {1})",
    norm.SoftmaxOp: "torch.softmax({0}, {axis})",
    norm.LogSoftmaxOp: "torch.log_softmax({0}, {axis})",
    layout.TransposeOp: "{0}.permute({perm})",
    layout.ReshapeOp: "{0}.reshape({shape})",
    layout.TileOp: "{0}.repeat({repeats})",
    index.GatherElementsOp: "torch.gather({0}, {axis}, {1}.to(torch.int64))",
}
EXPRESSIONS.update({op: _calls(template) for op, template in _SIMPLE.items()})


@row(unary.CastOp)
def _cast(o: Operands) -> str:
    return f"{o.names[0]}.to({o.dtype()})"


@row(unary.DropoutOp)
def _dropout(o: Operands) -> str:
    if o["training_mode"]:
        raise UnsupportedError("dropout must be that of inference to be saved as .pt")
    return o.names[0]


@row(binary.DivOp)
def _div(o: Operands) -> str:
    is_float = dtypes.of_ir(type_of(o.op.results[0]).element_type).is_float
    rounding = "" if is_float else ', rounding_mode="trunc"'
    return f"torch.div({o.names[0]}, {o.names[1]}{rounding})"


@row(binary.ModOp)
def _mod(o: Operands) -> str:
    return f"torch.{'fmod' if o['fmod'] else 'remainder'}({o.names[0]}, {o.names[1]})"


@row(activation.GeluOp)
def _gelu(o: Operands) -> str:
    return f'torch.nn.functional.gelu({o.names[0]}, approximate="{o["approximate"]}")'


@row(activation.ClipOp)
def _clip(o: Operands) -> str:
    return f"torch.clamp({', '.join(o.names)})"


@row(linear.GemmOp)
def _gemm(o: Operands) -> str:
    a, b, c = (*o.names, "None")[:3]
    a, b = (f"{n}.t()" if o[t] else n for n, t in ((a, "transA"), (b, "transB")))
    product = f"torch.matmul({a}, {b})"
    product = product if o["alpha"] == 1 else f"{product} * {o['alpha']}"
    return product if c == "None" else f"{product} + {c} * {o['beta']}"


@row(linear.EinsumOp)
def _einsum(o: Operands) -> str:
    return f"torch.einsum({o['equation']!r}, [{', '.join(o.names)}])"


def _pads(o: Operands, count: int) -> tuple[list[int], str]:
    """Padding as torch's operators take it, or the operand padded before them."""
    pads = list(o["pads"]) or [0] * 2 * count
    if pads[:count] == pads[count:]:
        return pads[:count], o.names[0]
    around = [p for i in reversed(range(count)) for p in (pads[i], pads[count + i])]
    value = "0.0" if not isinstance(o.op, pool.MaxPoolOp) else '-float("inf")'
    return [0] * count, f"torch.nn.functional.pad({o.names[0]}, {around}, value={value})"


def _window(o: Operands, name: str, count: int) -> list[int]:
    return list(o[name]) or [1] * count


@row(conv.ConvOp)
def _conv(o: Operands) -> str:
    count = o.rank - 2
    pads, x = _pads(o, count)
    how = [_window(o, "strides", count), pads, _window(o, "dilations", count), o["group"]]
    b = (*o.names, "None")[2]
    return f"torch.conv{count}d({x}, {o.names[1]}, {b}, {', '.join(map(str, how))})"


@row(pool.MaxPoolOp)
def _max_pool(o: Operands) -> str:
    count = len(o["kernel_shape"])
    pads, x = _pads(o, count)
    how = [list(o["kernel_shape"]), _window(o, "strides", count), pads]
    how += [_window(o, "dilations", count), o["ceil_mode"]]
    return f"torch.max_pool{count}d({x}, {', '.join(map(str, how))})"


@row(pool.AveragePoolOp)
def _average_pool(o: Operands) -> str:
    count = len(o["kernel_shape"])
    pads, x = _pads(o, count)
    if x != o.names[0] or any(d != 1 for d in o["dilations"]):
        raise UnsupportedError("an average pool must have even padding to be saved as .pt")
    how = [list(o["kernel_shape"]), _window(o, "strides", count), pads, o["ceil_mode"]]
    how.append(o["count_include_pad"])
    return f"torch.nn.functional.avg_pool{count}d({x}, {', '.join(map(str, how))})"


@row(pool.GlobalAveragePoolOp)
def _global_average(o: Operands) -> str:
    return f"torch.mean({o.names[0]}, {list(range(2, o.rank))}, keepdim=True)"


@row(pool.GlobalMaxPoolOp)
def _global_max(o: Operands) -> str:
    return f"torch.amax({o.names[0]}, {list(range(2, o.rank))}, keepdim=True)"


@row(norm.BatchNormalizationOp)
def _batch_norm(o: Operands) -> str:
    x, scale, b, mean, var = o.names
    eps = o["epsilon"]
    return f"torch.nn.functional.batch_norm({x}, {mean}, {var}, {scale}, {b}, False, 0.0, {eps})"


@row(norm.InstanceNormalizationOp)
def _instance_norm(o: Operands) -> str:
    x, scale, b = o.names
    return f"torch.group_norm({x}, {o.shapes[0][1]}, {scale}, {b}, {o['epsilon']})"


@row(norm.GroupNormalizationOp)
def _group_norm(o: Operands) -> str:
    x, scale, b = o.names
    return f"torch.group_norm({x}, {o['num_groups']}, {scale}, {b}, {o['epsilon']})"


def _over(o: Operands) -> Shape:
    return o.shapes[0][o["axis"] % o.rank :]


@row(norm.LayerNormalizationOp)
def _layer_norm(o: Operands) -> str:
    x, scale, b = (*o.names, "None")[:3]
    over = list(_over(o))
    normal = f"torch.nn.functional.layer_norm({x}, {over}, None, None, {o['epsilon']}) * {scale}"
    return normal if b == "None" else f"{normal} + {b}"


@row(norm.RMSNormalizationOp)
def _rms_norm(o: Operands) -> str:
    over = list(_over(o))
    return f"torch.rms_norm({o.names[0]}, {over}, None, {o['epsilon']}) * {o.names[1]}"


_REDUCTIONS: dict[Any, str] = {
    reduce.ReduceSumOp: "torch.sum({x}, {axes}, keepdim={keep})",
    reduce.ReduceMeanOp: "torch.mean({x}, {axes}, keepdim={keep})",
    reduce.ReduceMaxOp: "torch.amax({x}, {axes}, keepdim={keep})",
    reduce.ReduceMinOp: "torch.amin({x}, {axes}, keepdim={keep})",
    reduce.ReduceL1Op: "torch.sum(torch.abs({x}), {axes}, keepdim={keep})",
    reduce.ReduceL2Op: "torch.sqrt(torch.sum({x} * {x}, {axes}, keepdim={keep}))",
    reduce.ReduceSumSquareOp: "torch.sum({x} * {x}, {axes}, keepdim={keep})",
    reduce.ReduceLogSumOp: "torch.log(torch.sum({x}, {axes}, keepdim={keep}))",
    reduce.ReduceLogSumExpOp: "torch.logsumexp({x}, {axes}, keepdim={keep})",
}


def _reduction(template: str) -> Write:
    return lambda o: template.format(x=o.names[0], axes=list(o["axes"]), keep=o["keepdims"])


EXPRESSIONS.update({op: _reduction(template) for op, template in _REDUCTIONS.items()})


@row(reduce.ArgMaxOp, reduce.ArgMinOp)
def _arg(o: Operands) -> str:
    if o["select_last_index"]:
        raise UnsupportedError("the first of equals must be taken to be saved as .pt")
    name = "argmax" if isinstance(o.op, reduce.ArgMaxOp) else "argmin"
    return f"torch.{name}({o.names[0]}, {o['axis']}, keepdim={o['keepdims']})"


@row(reduce.CumSumOp)
def _cum_sum(o: Operands) -> str:
    if o["exclusive"] or o["reverse"]:
        raise UnsupportedError("a running sum must be a plain one to be saved as .pt")
    return f"torch.cumsum({o.names[0]}, {o['axis']}).to({o.dtype()})"


@row(layout.FlattenOp, layout.SqueezeOp, layout.UnsqueezeOp)
def _reshape(o: Operands) -> str:
    return f"{o.names[0]}.reshape({list(o.out)})"


@row(layout.ExpandOp)
def _expand(o: Operands) -> str:
    return f"{o.names[0]}.expand({list(o.out)})"


@row(layout.SliceOp)
def _slice(o: Operands) -> str:
    parts = layout.slices_of(o.shapes[0], o["starts"], o["ends"], o["axes"], o["steps"])
    text = o.names[0]
    for axis, (part, size) in enumerate(zip(parts, o.shapes[0], strict=True)):
        line = range(size)[part]
        if line.step < 0 and len(line) > 1:
            raise UnsupportedError("a slice must go forwards to be saved as .pt")
        if line != range(size):
            stop = line.start + (len(line) - 1) * line.step + 1 if len(line) else line.start
            text += f".slice({axis}, {line.start}, {stop}, {max(1, line.step)})"
    return text


@row(layout.ConcatOp)
def _concat(o: Operands) -> str:
    return f"torch.cat([{', '.join(o.names)}], {o['axis']})"


@row(layout.SplitOp)
def _split(o: Operands) -> str:
    return f"torch.split_with_sizes({o.names[0]}, {list(o['split'])}, {o['axis']})"


@row(layout.PadOp)
def _pad(o: Operands) -> str:
    pads, n = o["pads"], o.rank
    around = [p for i in reversed(range(n)) for p in (pads[i], pads[n + i])]
    while around and around[-2:] == [0, 0]:
        del around[-2:]
    mode = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}.get(o["mode"])
    if mode is None:
        raise UnsupportedError(f"padding must not be '{o['mode']}' to be saved as .pt")
    value = (*o.names, "None")[1]
    last = f", value=float({value})" if value != "None" else ""
    return f'torch.nn.functional.pad({o.names[0]}, {around}, mode="{mode}"{last})'


@row(layout.TriluOp)
def _trilu(o: Operands) -> str:
    return f"torch.{'triu' if o['upper'] else 'tril'}({o.names[0]}, {o['k']})"


@row(index.GatherOp)
def _gather(o: Operands) -> str:
    axis, size = o["axis"] % o.rank, o.shapes[0][o["axis"] % o.rank]
    flat = f"torch.remainder({o.names[1]}.reshape([-1]).to(torch.int64), {size})"
    return f"torch.index_select({o.names[0]}, {axis}, {flat}).reshape({list(o.out)})"


@row(index.ScatterElementsOp)
def _scatter_elements(o: Operands) -> str:
    axis, size = o["axis"] % o.rank, o.shapes[0][o["axis"] % o.rank]
    places = f"torch.remainder({o.names[1]}.to(torch.int64), {size})"
    if o["reduction"] is not index.ScatterMode.NONE:
        raise UnsupportedError("elements must be put in, not combined, to be saved as .pt")
    return f"torch.scatter({o.names[0]}, {axis}, {places}, {o.names[2]})"


@row(attention.AttentionOp)
def _attention(o: Operands) -> str:
    if o.rank != 4 or o["softcap"]:
        raise UnsupportedError("attention must have its heads in a dim to be saved as .pt")
    mask = (*o.names, "None")[3]
    shared = o.shapes[0][1] != o.shapes[1][1]
    how = f"attn_mask={mask}, is_causal={o['is_causal']}, scale={o['scale']}, enable_gqa={shared}"
    q, k, v = o.names[:3]
    return f"torch.scaled_dot_product_attention({q}, {k}, {v}, {how})"
