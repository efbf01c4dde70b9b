"""What of PyTorch can be loaded and saved: programs, scripts, files, and what runs elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import nn

import ge
from ge.dialects.diagnostics import InputError
from ge.runtime.device import DEVICE
from ge.tools import ge_compile
from tests.torch import nets
from tests.torch.test_modules import CONFIG, close

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 5, 32)


@pytest.fixture
def module() -> nn.Module:
    torch.manual_seed(0)
    return nets.SimpleTransformer()


def _open(module: nn.Module, x: torch.Tensor) -> Any:
    dims = {0: torch.export.Dim("batch", max=8), 1: torch.export.Dim("length", max=64)}
    return torch.export.export(module, (x,), dynamic_shapes={"x": dims})


def test_exported_programs_run_in_every_shape_they_are_open_for(
    module: nn.Module, x: torch.Tensor, tmp_path: Path
) -> None:
    torch.export.save(_open(module, x), tmp_path / "m.pt2")
    engine = ge.GraphEngine(CONFIG)
    engine.LoadModel(tmp_path / "m.pt2")
    optimized = engine.OptimizeGraph()
    with pytest.raises(InputError, match="must have a concrete shape"):
        engine.SaveOptimizedModel(tmp_path / "m.o")
    close(optimized(x), module(x).detach())
    other = torch.randn(3, 4, 32)
    close(optimized(x=other), module(other).detach())
    assert optimized.compiles == 2


def test_a_closed_program_is_saved_before_any_call(
    module: nn.Module, x: torch.Tensor, tmp_path: Path
) -> None:
    engine = ge.GraphEngine(CONFIG)
    engine.LoadModel(torch.export.export(module, (x,)))
    engine.SaveOptimizedModel(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (got,) = session.run(None, {"x": x.numpy()})
    close(torch.from_numpy(got), module(x).detach())


def test_scripts_run_and_are_saved_with_and_without_shapes(
    module: nn.Module, x: torch.Tensor, tmp_path: Path
) -> None:
    engine = ge.GraphEngine(CONFIG)
    engine.LoadModel(torch.jit.script(module))
    optimized = engine.SaveOptimizedModel(tmp_path / "open.pt")
    close(optimized(x), module(x).detach())
    engine.SaveOptimizedModel(tmp_path / "closed.pt")
    for name in ("open.pt", "closed.pt"):
        close(torch.jit.load(tmp_path / name)(x).detach(), module(x).detach())
    other = torch.randn(1, 3, 32)
    close(torch.jit.load(tmp_path / "open.pt")(other).detach(), module(other).detach())
    with pytest.raises(torch.jit.Error, match="shape must be"):
        torch.jit.load(tmp_path / "closed.pt")(other)
    engine.LoadModel(tmp_path / "open.pt")
    close(engine.OptimizeGraph()(x), module(x).detach())


def test_scripts_keep_their_buffers(tmp_path: Path) -> None:
    module, x = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).eval(), torch.randn(3, 4)
    torch.jit.save(torch.jit.script(module), str(tmp_path / "norm.pt"))
    for given in (torch.jit.script(module), torch.jit.trace(module, x), tmp_path / "norm.pt"):
        engine = ge.GraphEngine(CONFIG)
        engine.LoadModel(given)
        close(engine.OptimizeGraph()(x), module(x).detach())


class _Sentence(nn.Module):
    """A recurrent layer that gives its places alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Without the last state."""
        found: torch.Tensor = self.layer(x)[0]
        return found


TRACED: dict[str, tuple[Any, tuple[int, ...]]] = {
    "convolution": (lambda: nn.Conv2d(3, 4, 3, padding=1), (1, 3, 6, 5)),
    "transposed convolution": (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), (1, 3, 6)),
    "recurrent": (_Sentence, (3, 1, 8)),
    "transformer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        (1, 5, 8),
    ),
}


@pytest.mark.filterwarnings("ignore")  # Of numbers that a trace fixes.
@pytest.mark.parametrize("name", TRACED)
def test_what_is_traced_runs_and_its_file_does(name: str, tmp_path: Path) -> None:
    make, shape = TRACED[name]
    module, x = make().eval(), torch.randn(shape)
    script = torch.jit.trace(module, x, check_trace=False)
    torch.jit.save(script, str(tmp_path / "traced.pt"))
    for given in (script, tmp_path / "traced.pt"):
        engine = ge.GraphEngine(CONFIG)
        engine.LoadModel(given)
        launches = DEVICE.launches
        close(engine.OptimizeGraph()(x), module(x).detach())
        assert DEVICE.launches == launches + 1


def test_scripts_keep_loops_over_numbers() -> None:
    engine = ge.GraphEngine(CONFIG)
    engine.LoadModel(torch.jit.script(nets.Count()))
    optimized = engine.OptimizeGraph()
    for n in (0, 3, 4):
        close(optimized(torch.ones(2), n), nets.Count()(torch.ones(2), n))


class Climb(nn.Module):
    """Loops and branches by what is in its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        """The tensor after as many rounds as it takes, and how many those were."""
        rounds = 0
        while bool(x.abs().sum() < 50) and rounds < 6:
            x = torch.relu_(self.layer(x)) * 2 + 1
            if bool(x.max() > 10):
                x = x - 3
            rounds += 1
        return x, rounds


class Floor(nn.Module):
    """Loops as often as its largest number, rounded down, says."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Numbers of either sign, divided and cut as Python does."""
        n = int(x.abs().max().item())
        for i in range(n):
            x = x + i
        if n > 2:
            return x * float(-n // 2)
        return x.mul_(2)


@pytest.mark.parametrize("make", [nets.Branch, Climb, Floor])
def test_scripts_keep_both_branches_and_the_loop(make: Any) -> None:
    torch.manual_seed(0)
    module = make()
    engine = ge.GraphEngine(CONFIG)
    engine.LoadModel(torch.jit.script(module))
    optimized = engine.OptimizeGraph()
    for x in (torch.ones(2, 3), -torch.ones(2, 3), torch.full((2, 3), 3.7), torch.randn(2, 3) * 9):
        own = x.clone()
        launches = DEVICE.launches
        got = optimized(x)
        assert DEVICE.launches > launches
        with torch.no_grad():
            close(got, module(own))
        torch.testing.assert_close(x, own)


def test_the_command_compiles_files_of_torch(
    module: nn.Module, x: torch.Tensor, tmp_path: Path, capsys: Any
) -> None:
    torch.export.save(_open(module, x), tmp_path / "m.pt2")
    torch.jit.save(torch.jit.script(module), tmp_path / "m.pt")
    for name in ("m.pt2", "m.pt"):
        model = str(tmp_path / name)
        shape = ["--shape", "x:2,5,32"]
        assert ge_compile.main([model, *shape, "--target", "tiny"]) == 0
        (got,) = ge.load(tmp_path / "m.o").run({"x": x.numpy()}).values()
        close(torch.from_numpy(got), module(x).detach())
        assert ge_compile.main([model, "--target", "tiny"]) == 3
    assert "input 'x' must have a shape" in capsys.readouterr().err


def test_files_that_are_something_else_are_named(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1)}, tmp_path / "state.pt")
    engine = ge.GraphEngine(CONFIG)
    with pytest.raises(InputError, match=r"state\.pt: error: must be a TorchScript module"):
        engine.LoadModel(tmp_path / "state.pt")
    (tmp_path / "m.pt2").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"m\.pt2: error: must be a program of torch\.export"):
        engine.LoadModel(tmp_path / "m.pt2")
    with pytest.raises(InputError, match="no such file"):
        engine.LoadModel(tmp_path / "no.pt")


class _Choice(nn.Module):
    """One of two layers, as the data say."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(
            x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x).softmax(-1), (x,)
        )


def test_branches_and_loops_are_saved_as_torch_has_them(tmp_path: Path) -> None:
    torch.manual_seed(0)
    lstm, choice = nn.LSTM(6, 8), _Choice()
    for module, x in ((lstm, torch.randn(20, 2, 6)), (choice, torch.randn(4, 8))):
        optimized = ge.GraphEngine(CONFIG)
        call = optimized.Optimize(module.eval())
        for shift in (1, -1):
            got, want = (pick(f(x + shift)) for f in (call, module))
            close(got, want.detach())
        optimized.SaveOptimizedModel(tmp_path / "m.pt")
        again = torch.jit.load(tmp_path / "m.pt")
        close(pick(again(x)), pick(module(x)).detach())


def pick(outputs: Any) -> torch.Tensor:
    """The first of several outputs."""
    first: torch.Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
    return first
