"""Where an array's memory is, and what its elements are: by the buffer protocol, or by DLPack."""

from __future__ import annotations

import ctypes
from typing import Any

# By struct's letters, native byte order; l and L have the machine's size.
_LETTERS = {"f": "f32", "d": "f64", "e": "f16", "b": "i8", "B": "u8", "c": "u8", "?": "u8", "h": "i16", "i": "i32", "I": "u32"}
_LETTERS.update({"q": "i64", "Q": "u64", "l": f"i{8 * ctypes.sizeof(ctypes.c_long)}", "L": f"u{8 * ctypes.sizeof(ctypes.c_long)}"})

# By DLPack's code and bits.
_CODES = {(0, 8): "i8", (0, 16): "i16", (0, 32): "i32", (0, 64): "i64", (1, 8): "u8", (1, 32): "u32", (1, 64): "u64"}
_CODES.update({(2, 16): "f16", (2, 32): "f32", (2, 64): "f64", (4, 16): "bf16", (6, 8): "u8", (10, 8): "e4m3", (12, 8): "e5m2"})

_HOST = (1, 3)  # kDLCPU, kDLCUDAHost


class _Tensor(ctypes.Structure):
    """DLTensor, with which a DLManagedTensor begins."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)


class Typed:
    """What says itself where its memory is, and what its elements are: bytes that no type of NumPy's describes."""

    memory: Any
    element: str


def described(array: Any) -> tuple[Any, str]:
    """The memory as quincunx._core takes it, and the elements' type by name.

    Raises TypeError for what is no array or has another type, BufferError for strides and for memory of a device.
    """
    if isinstance(array, Typed):
        return array.memory, array.element
    if hasattr(array, "__dlpack__") and not _has_buffer(array):
        return _by_dlpack(array)
    try:
        view = memoryview(array)
    except TypeError:
        raise TypeError(f"expected an array, found {type(array).__name__}; give one with a buffer or DLPack") from None
    letter = view.format.lstrip("@=<") if view.itemsize > 0 else ""
    element = _LETTERS.get(letter)
    if element is None or view.itemsize * 8 != int(element.lstrip("bfiu")):
        raise TypeError(f'expected numbers of a type that can be exchanged, found format "{view.format}"; convert the array')
    return array, element


def _has_buffer(array: Any) -> bool:
    try:
        memoryview(array).release()
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _by_dlpack(array: Any) -> tuple[Any, str]:
    device, _ = array.__dlpack_device__()
    if device not in _HOST:
        raise BufferError(f"expected memory of the host, found device type {device}; copy it first, or use quincunx.torch")
    capsule = array.__dlpack__()
    tensor = ctypes.cast(_pointer(capsule, b"dltensor"), ctypes.POINTER(_Tensor)).contents
    element = _CODES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if element is None:
        raise TypeError(f"expected numbers of a type that can be exchanged, found DLPack's {tensor.code} of {tensor.bits} bits; convert it")
    shape = [tensor.shape[axis] for axis in range(tensor.ndim)]
    count = 1
    for axis in reversed(range(tensor.ndim)):
        if tensor.strides and shape[axis] > 1 and tensor.strides[axis] != count:
            raise BufferError("expected contiguous memory, found strides; copy it first")
        count *= shape[axis]
    address = (tensor.data or 0) + tensor.byte_offset
    # The capsule frees what it describes when it goes, so it is the owner.
    return (address, count * tensor.bits // 8, capsule), element
