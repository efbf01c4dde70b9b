"""The adapters of all operators that have one: each module adds its own as it is imported."""

from ge.frontend import onnx_composed as onnx_composed
from ge.frontend import onnx_contributed as onnx_contributed
from ge.frontend import onnx_heads as onnx_heads
from ge.frontend import onnx_optimised as onnx_optimised
from ge.frontend import onnx_quantized as onnx_quantized
from ge.frontend import onnx_recurrent as onnx_recurrent
from ge.frontend import onnx_sampling as onnx_sampling
from ge.frontend import onnx_sequences as onnx_sequences
from ge.frontend import onnx_spectral as onnx_spectral
from ge.frontend import onnx_windows as onnx_windows
from ge.frontend.onnx_versions import ADAPTERS as ADAPTERS
