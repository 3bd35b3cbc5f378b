"""The cases of the CEL specification that lie in the subset of routing expressions.

After tests/simple/testdata of https://github.com/google/cel-spec, file by file. Each is evaluated as a row
and, where Arrow's kernels take it, as a column. Left out is what routing expressions don't have: maps,
messages, times, macros, indexing, size(), dyn(), type() and string() of doubles and bytes.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from lading.cel.check import typed
from lading.cel.columns import NotSimple, by_kernels
from lading.cel.parse import CelProblem
from lading.cel.rows import Fault, on_row
from lading.serve.routing import shard_hash
from lading.serve.routing_arrays import xxh3_64_of_bytes

INF = math.inf

BASIC: dict[str, Any] = {
    "0": 0, "0u": 0, "0U": 0, "0.0": 0.0, "''": "", '""': "", "r''": "", "b''": b"", "false": False,
    "42": 42, "-1": -1, "123456789u": 123456789, "3.14": 3.14, "-2.3e+1": -23.0, ".99": 0.99, "1e3": 1000.0,
    "9223372036854775807": 2**63 - 1, "-9223372036854775808": -(2**63), "18446744073709551615u": 2**64 - 1,
    "0x55555555": 0x55555555, "-0x55555555": -0x55555555, "0x55555555u": 0x55555555,
    r"'\''": "'", r'"\""': '"', r"'\\\''": "\\'", r'"\a\b\f\n\r\t\v"': "\a\b\f\n\r\t\v", r"'\?\`'": "?`",
    r"'\x41\X42'": "AB", r"'\101'": "A", r"'\u00ff'": "ÿ", r"'\U0001f431'": "🐱", r"'\377'": "ÿ",
    r"b'\xff'": b"\xff", r"b'\303\277'": "ÿ".encode(), "b'ÿ'": "ÿ".encode(), r"br'\n'": b"\\n",
    "'\"'": '"', '"\'"': "'", "'''x''x'''": "x''x", '"""x""x"""': 'x""x', "'''a\nb'''": "a\nb",
    r"r'\x41'": r"\x41", r"R'\a'": r"\a", "'πέντε'": "πέντε",
}  # fmt: skip
COMPARISONS: dict[str, Any] = {
    "1 == 1": True, "-1 == 1": False, "1u == 1u": True, "1u == 2u": False, "1.0 == 1.0": True,
    "-1.0 == 1.0": False, "-0.0 == 0.0": True, "0.0 / 0.0 == 0.0 / 0.0": False, "'' == \"\"": True,
    "'a' == 'a'": True, "'a' == 'A'": False, "'a' == 'b'": False, "'ίσος' == 'ίσος'": True,
    "'a' != '\u0430'": True, "null == null": True, "true == true": True, "true == false": False,
    r"b'ÿ' == b'\303\277'": True, "b'abc' == b'abcd'": False, "[] == []": True,
    "[1, 2, 3] == [1, 2, 3]": True, "[1, 2, 3] == [1, 3, 2]": False, "[1] == [1, 2]": False,
    "[0.0 / 0.0] == [0.0 / 0.0]": False, "24 != 42": True, "1 != 1": False, "1u != 2u": True,
    "9.0e+6 != 9.0e+6": False, "'abc' != ''": True, r"b'\x00' != b'\x01'": True, "false != false": False,
    "null != null": False, "[2] != [1]": True, "0.0 / 0.0 != 0.0 / 0.0": True, "-1 < 0": True, "0 < 0": False,
    "0u < 1u": True, "2u < 2u": False, "1.0 < 1.0000001": True, "-0.0 < 0.0": False,
    "-1.0 / 0.0 < 1.0": True, "0.0 / 0.0 < 1.0": False, "'a' < 'b'": True, "'a' < 'B'": False,
    "'' < 'a'": True, "'abc' < 'abcd'": True, "'a' < '\u00e1'": True, "'\uff5e' < '🐱'": True,
    "b'a' < b'b'": True, "b'abc' < b'abcd'": True, r"b'\xff' < b'a'": False, "false < true": True,
    "true < true": False, "42 > -42": True, "0u > 0u": False, "'aa' > 'a'": True, r"b'\xff' > b'\x7f'": True,
    "true > false": True, "1.0 / 0.0 > 1e308": True, "0 <= -1": False, "0u <= 18446744073709551615u": True,
    "'' <= ''": True, r"b'' <= b'\x00'": True, "false <= true": True, "42 >= 42": True, "1u >= 2u": False,
    "'B' >= 'a'": False, "b'b' >= b'b'": True, "true >= false": True, "1 in [1, 2, 3]": True,
    "'x' in ['y']": False, "'elephant' in []": False, "3u in [1u, 3u]": True, "1.5 in [1.5, 2.0]": True,
    "0.0 / 0.0 in [0.0 / 0.0]": False, "[1] in [[1], [2]]": True, "b'a' in [b'b']": False,
    "true in [false]": False, "'b' in ['a', 'b' + '']": True,
}  # fmt: skip
INTEGER_MATH: dict[str, Any] = {
    "40 + 2": 42, "42 + (-7)": 35, "-4 + (-2)": -6, "42 - 12": 30, "42 - (-22)": 64, "-42 - (-12)": -30,
    "42 * 2": 84, "40 * (-2)": -80, "-30 * (-2)": 60, "42 / 2": 21, "-20 / 2": -10, "-80 / (-2)": 40,
    "7 / -2": -3, "-7 / 2": -3, "47 % 5": 2, "43 % (-5)": 3, "-42 % (-5)": -2, "-3 % 5": -3, "-(42)": -42,
    "-(-42)": 42, "-(0)": 0, "15 * 0": 0, "0 + 17": 17, " 29 + 0": 29, "75 + 15 == 15 + 75": True,
    "5 + (15 + 20) == (5 + 15) + 20": True, "1 * 45": 45, "-25 * 1": -25,
    "5 * (15 + 25)  == 5 * 15 + 5 * 25": True, "42u + 2u": 44, "42u - 12u": 30, "40u * 2u": 80,
    "60u / 2u": 30, "42u % 5u": 2, "15u * 0u": 0, "0u + 17u": 17, "1u * 45u": 45,
    "5u * (15u + 25u)  == 5u * 15u + 5u * 25u": True,
}  # fmt: skip
FP_MATH: dict[str, Any] = {
    "4.25 + 15.25": 19.5, "17.75 + (-7.75)": 10.0, "-4.125 + (-2.125)": -6.25, "42.875 - (-22.0)": 64.875,
    "42.5 * 0.2": 8.5, "40.75 * (-2.25)": -91.6875, "0.0625 / 0.002": 31.25, "-8.875 / (-0.0625)": 142.0,
    "-(4.5)": -4.5, "-(-1.25)": 1.25, "-(0.0)": -0.0, "15.75 / 0.0": INF, "-15.75 / 0.0": -INF,
    "15.75 / -0.0": -INF, "15.36 * 0.0": 0.0, "1.5 * 25.875 == 25.875 * 1.5": True,
    "2.0 * 8.988466e+307": INF, "2.0 * -8.988466e+307": -INF, "1e-324 / 2.0": 0.0,
}  # fmt: skip
STRINGS: dict[str, Any] = {
    "'foobar'.startsWith('foo')": True, "'foobar'.startsWith('bar')": False, "''.startsWith('foo')": False,
    "'foobar'.startsWith('')": True, "''.startsWith('')": True, "'завтра'.startsWith('за')": True,
    "'foobar'.endsWith('bar')": True, "'foobar'.endsWith('foo')": False, "''.endsWith('foo')": False,
    "'foobar'.endsWith('')": True, "''.endsWith('')": True, "'forté'.endsWith('té')": True,
    "'hello'.contains('he')": True, "'hello'.contains('')": True, "'hello'.contains('ol')": False,
    "'abababc'.contains('ababc')": True, "'Straße'.contains('aß')": True, "''.contains('something')": False,
    "'hubba'.matches('ubb')": True, "''.matches('foo|bar')": False, "'cows'.matches('')": True,
    "''.matches('')": True, "'abcd'.matches('bc')": True, "'grey'.matches('gr(a|e)y')": True,
    "'banana'.matches('ba(na)*')": True, "'mañana'.matches('a+ñ+a+')": True,
    "'🐱😀😛'.matches('(a|😀){1}')": True, r"'é'.matches(r'^\w$')": False,
    "'he' + 'llo'": "hello", "'hello' + ' ' == 'hello'": False, "'' + 'abc'": "abc", "'' + ''": "",
    "'¢' + 'ÿ' + 'Ȁ'": "¢ÿȀ", "b'abc' + b'def'": b"abcdef", "b'' + b''": b"", "b'ÿ' + b''": "ÿ".encode(),
}  # fmt: skip
LOGIC: dict[str, Any] = {
    "true ? 1 : 2": 1, "false ? 'foo' : 'bar'": "bar", "true ? 1 : 1 / 0": 1, "false ? 1 / 0 : 2": 2,
    "true && true": True, "false && true": False, "true && false": False, "false && false": False,
    "false && (2 / 0 > 3 ? false : true)": False, "(2 / 0 > 3 ? false : true) && false": False,
    "true || true": True, "false || true": True, "true || false": True, "false || false": False,
    "true || (2 / 0 > 3 ? false : true)": True, "(2 / 0 > 3 ? false : true) || true": True,
    "!true": False, "!false": True, "false && false || true": True, "true || false && false": True,
}  # fmt: skip
CONVERSIONS: dict[str, Any] = {
    "bytes('')": b"", "bytes('abc')": b"abc", "bytes('ÿ')": b"\xc3\xbf", r"bytes('\377') == b'\377'": False,
    "bytes(b'a')": b"a", "double(0)": 0.0, "double(-1000000000000000)": -1e15, "double(123u)": 123.0,
    "double(9007199254740992)": 9.007199254740992e15, "double(9223372036854775807)": 9.223372036854775807e18,
    "double(18446744073709551615u)": 1.8446744073709551615e19, "double('0')": 0.0, "double('-0.0')": -0.0,
    "double('123')": 123.0, "double('123.456')": 123.456, "double('6.02214e23')": 6.02214e23,
    "double('-5.43e-21')": -5.43e-21, "double(6.5)": 6.5, "int(42u)": 42, "int(0u)": 0,
    "int(9223372036854775807u)": 2**63 - 1, "int(-123.456)": -123, "int(1.9)": 1, "int(-7.9)": -7,
    "int(11.5)": 11, "int(-3.5)": -3, "int(double(36028797018963968))": 2**55,
    "int(double(36028797018963969))": 2**55, "int('987')": 987, "int('-42')": -42, "int(7)": 7,
    "uint(1729)": 1729, "uint(9223372036854775807)": 2**63 - 1, "uint(3.14159265)": 3, "uint(25.5)": 25,
    "uint(1e19)": 10**19, "uint(double(36028797018963969u))": 2**55, "uint('300')": 300, "uint(3u)": 3,
    "string(123)": "123", "string(-456)": "-456", "string(9876u)": "9876", "string('x')": "x",
    "string(true)": "true", "string(false)": "false",
}  # fmt: skip
PARSE: dict[str, Any] = {
    "(" * 32 + "7" + ")" * 32: 7, "int(uint(" * 6 + "7" + "))" * 6: 7,
    "[" * 12 + "0" + "]" * 12 + " == " + "[" * 12 + "0" + "]" * 12: True,
    "true ? true : " * 24 + "false": True, "false || " * 32 + "true": True, "true && " * 32 + "false": False,
    "3 - 3 + " * 12 + "3": 3, "4 * 4 / " * 12 + "4": 4, "!" * 32 + "true": True, "-" * 32 + "19": 19,
    "1 + 2 * 3 - 4 / 2 % 3": 5, "1 - 2 - 3": -4, "8 / 4 / 2": 1, "1 + 1 == 2 && 3 > 2 == true": True,
    "-1 + 2": 1, "!false && true": True, "1 // one\n + 2 // two": 3, "\t1\r\n+\f2": 3,
    "[1, 2,] == [1, 2]": True, "17 in [" + ", ".join(map(str, range(32))) + "]": True,
}  # fmt: skip
VALUES = {**BASIC, **COMPARISONS, **INTEGER_MATH, **FP_MATH, **STRINGS, **LOGIC, **CONVERSIONS, **PARSE}
FAULTS = (
    "34 % 0", "15 / 0", "34u % 0u", "15u / 0u", "9223372036854775807 + 1", "-9223372036854775808 - 1",
    "-9223372036854775808 + (-1)", "1 - (-9223372036854775807)", "(-9223372036854775808) * -1",
    "(-9223372036854775808)/-1", "(-9223372036854775808) % -1", "5000000000 * 5000000000",
    "(-5000000000) * 5000000000", "18446744073709551615u + 1u", "0u - 1u", "5000000000u * 5000000000u",
    "-(-9223372036854775807 - 1)", "2 / 0 > 4 ? 'baz' : 'quux'", "true && 1/0 != 0", "1/0 != 0 && true",
    "false || 1/0 != 0", "1/0 != 0 || false", "1/0 != 0 && 1/0 != 0", "!(1/0 == 1)", "1 in [1, 1/0]",
    "int(18446744073709551615u)", "int(9223372036854775807.0)", "int(-9223372036854775808.0)", "int(1e99)",
    "int(18446744073709551615.0)", "int(0.0 / 0.0)", "uint(-1)", "uint(6.022e23)", "uint(-0.5)", "int('x')",
    "int('')", "int('1.0')", "int('9223372036854775808')", "int('1_0')", "int('٣')", "uint('-1')",
    "double('x')", "double('')", "double('1_0')", "double(' 1')", "'a'.matches('(' + '')",
)  # fmt: skip
REFUSED = (
    "-(42u)", "-false", "47.5 % 5.5", "true ? 'cows' : 17", "'cows' ? false : 17", "false && 32",
    "'horses' && false", "'horses' || true", "!0", "1 + 1u", "1 + 1.0", "1u == 1", "1.0 < 1", "'a' + 1",
    "1 in [1u]", "1 in ['a']", "[1, 'a']", "null < null", "[1] < [2]", "'a'.startsWith(1)", "unknown_name",
    "f_unknown(17)", "-(-9223372036854775808)", "18446744073709551616u", "9223372036854775808", "1 +",
    "(1", "1)", "'a", "'a\nb'", r"'\q'", r"'\4'", r"b'\u0041'", r"'\ud800'", r"'\U00110000'", "1 ? : 2",
    "int(1,)", "while", "0X1", "1 = 1", "1 == 1u ? 1 : 2", "a.b", "[1][0]", "size('four')",
)  # fmt: skip


def shortened(text: str) -> str:
    return text if len(text) < 50 else f"{text[:30]}…{len(text)}"


@pytest.mark.parametrize(("text", "expected"), VALUES.items(), ids=map(shortened, VALUES))
def test_a_value_is_what_the_specification_says(text: str, expected: Any) -> None:
    tree = typed(text, {})
    found = on_row(tree, shard_hash)({})
    assert (found, type(found)) == (expected, type(expected))
    if isinstance(expected, float):
        assert math.copysign(1, found) == math.copysign(1, expected)
    try:
        column = by_kernels(tree, {}, 2, xxh3_64_of_bytes)
    except NotSimple:
        return
    assert column.to_pylist() == [expected, expected]


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_what_the_specification_says(text: str) -> None:
    tree = typed(text, {})
    with pytest.raises(Fault):
        on_row(tree, shard_hash)({})
    with pytest.raises(NotSimple):
        by_kernels(tree, {}, 2, xxh3_64_of_bytes)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_expression_or_mixes_types_is_refused_with_a_place(text: str) -> None:
    with pytest.raises(CelProblem) as caught:
        typed(text, {})
    assert 0 <= caught.value.at <= len(text)


def test_unsigned_numbers_stay_apart_from_signed_ones() -> None:
    kinds = {"1u + 2u": "uint", "uint(1)": "uint", "int(1u)": "int", "1": "int", "shard_hash(1)": "uint"}
    assert {text: typed(text, {}).type for text in kinds} == kinds
