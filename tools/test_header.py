#!/usr/bin/env python3
"""Holds `crates/apps/capi/include/quincunx.h`, which is written for people, to what the library exports: the same calls, arguments and numbers."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What an argument of the header's is in Rust.
TYPES = {
    "int": "c_int", "double": "f64", "float": "f32", "size_t": "usize", "void": "c_void", "char": "c_char", "qxUniqueId": "qxUniqueId",
    "qxResult_t": "Status", "qxDataType_t": "c_int", "qxRedOp_t": "c_int", "qxComm_t": "*mut qxComm", "qxRequest_t": "*mut qxRequest",
    "qxEndpoint_t": "*mut qxEndpoint", "qxGroupId": "qxGroupId",
    "qxExperts_t": "*mut qxExperts", "qxArrived": "qxArrived",
}
# What a number of the header's means in Rust.
ELEMENTS = {
    "qxInt8": "I8", "qxUint8": "U8", "qxInt16": "I16", "qxInt32": "I32", "qxUint32": "U32", "qxInt64": "I64", "qxUint64": "U64",
    "qxFloat16": "F16", "qxFloat32": "F32", "qxFloat64": "F64", "qxBfloat16": "Bf16",
    "qxFloat8e4m3": "F8E4M3", "qxFloat8e5m2": "F8E5M2",
    "qxMxfp8": "Mxfp8", "qxNvfp4": "Nvfp4",
}
OPERATIONS = {
    "qxSum": "Sum", "qxProd": "Product", "qxMax": "Max", "qxMin": "Min", "qxBitAnd": "BitAnd", "qxBitOr": "BitOr", "qxBitXor": "BitXor",
    "qxAvg": "Average",
}
RESULTS = {
    "qxSuccess": "SUCCESS", "qxSystemError": "SYSTEM_ERROR", "qxInternalError": "INTERNAL_ERROR", "qxInvalidArgument": "INVALID_ARGUMENT",
    "qxRemoteError": "REMOTE_ERROR", "qxInProgress": "IN_PROGRESS",
}


def in_rust(declared: str) -> str:
    """`const void *sendbuff` as `*const c_void`."""
    is_const, declared = declared.startswith("const "), declared.removeprefix("const ")
    name, pointer = re.match(r"(\w+)\s*(\*?)", declared).groups()
    of = TYPES[name]
    return f"*{'const' if is_const else 'mut'} {of}" if pointer else of


def declared(header: str) -> dict[str, tuple[list[str], str]]:
    """Calls of the header, with arguments and result as Rust has them."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    calls = re.findall(r"^((?:const )?\w+ \*?)(qx\w+)\(([^;]*)\);", text, re.MULTILINE)
    arguments = lambda listed: [] if listed == "void" else [in_rust(" ".join(each.split())) for each in listed.split(",")]  # noqa: E731
    return {name: (arguments(listed), in_rust(result.strip())) for result, name, listed in calls}


def exported(library: str) -> dict[str, tuple[list[str], str]]:
    found = re.findall(r'#\[unsafe\(no_mangle\)\]\npub (?:unsafe )?extern "C" fn (\w+)\(([^)]*)\)(?: -> ([^{]*))? \{', library)
    return {name: (re.findall(r":\s*([^,]+?)\s*(?:,|$)", listed.strip()), result or "c_void") for name, listed, result in found}


def numbers(header: str, enum: str) -> dict[str, int]:
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    body = re.search(r"typedef enum \{([^}]*)\} " + enum, text)[1]
    return {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", body)}


class Header(unittest.TestCase):
    header = (ROOT / "crates/apps/capi/include/quincunx.h").read_text()
    library = "".join((ROOT / "crates/apps/capi/src" / name).read_text() for name in ("lib.rs", "experts.rs"))

    def test_it_declares_what_the_library_exports_with_the_same_arguments(self) -> None:
        calls = exported(self.library)
        self.assertGreater(len(calls), 20)
        self.assertEqual(len(calls), self.library.count("no_mangle"))
        self.assertEqual(declared(self.header), calls)

    def test_types_have_the_numbers_that_the_library_reads(self) -> None:
        read = {name: int(number) for number, name in re.findall(r"(\d+) => DataType::(\w+)", self.library)}
        self.assertEqual({ELEMENTS[name]: number for name, number in numbers(self.header, "qxDataType_t").items()}, read)

    def test_operations_have_the_numbers_that_the_library_reads(self) -> None:
        read = {name: int(number) for number, name in re.findall(r"(\d+) => (?:ReduceOp|Op)::(\w+)", self.library)}
        self.assertEqual({OPERATIONS[name]: number for name, number in numbers(self.header, "qxRedOp_t").items()}, read)

    def test_results_have_the_numbers_that_the_library_returns(self) -> None:
        returned = {name: int(number) for name, number in re.findall(r"const (\w+): Status = (\d+);", self.library)}
        self.assertEqual({RESULTS[name]: number for name, number in numbers(self.header, "qxResult_t").items()}, returned)

    def test_constants_are_the_librarys(self) -> None:
        constant = lambda name: int(re.search(rf"#define {name} (\d+)", self.header)[1])  # noqa: E731
        self.assertEqual(constant("QX_UNIQUE_ID_BYTES"), int(re.search(r"const ID: usize = (\d+);", self.library)[1]))
        self.assertEqual(constant("QX_MAJOR") * 10000 + constant("QX_MINOR") * 100, int(re.search(r"put\(version, (\d+)", self.library)[1]))


if __name__ == "__main__":
    unittest.main()
