"""YAML with line numbers: what comes out, and that nothing wrong passes in silence."""

import pytest

from lading.config.yaml import read_lines


def values(text, environ=None):
    root, problems = read_lines(text, environ or {})
    assert problems == []
    return {name: line.value for name, line in root.value.items()}


def complaints(text, environ=None):
    return [(problem.line, problem.key, problem.text) for problem in read_lines(text, environ or {})[1]]


def test_every_key_knows_its_line():
    root, problems = read_lines("a: 1\nb:\n  c: x\n", {})
    assert problems == []
    assert root.value["a"].line == 1
    assert root.value["b"].value["c"].line == 3


def test_scalars_have_the_types_of_safe_yaml():
    assert values("i: 1\nf: 1.5\nb: true\ns: x\nn: ~\nq: '1'\n") == {
        "i": 1, "f": 1.5, "b": True, "s": "x", "n": None, "q": "1",
    }  # fmt: skip


def test_a_key_called_null_or_on_is_a_key_like_any_other():
    assert values("null: NA\non: x\n") == {"null": "NA", "on": "x"}


def test_a_duplicate_key_names_both_lines():
    ((line, key, text),) = complaints("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert (line, key) == (4, "a.b")
    assert "line 2" in text


def test_a_variable_is_filled_in_and_a_default_used():
    environ = {"DIR": "/srv", "EMPTY": ""}
    assert values("a: ${DIR}/x\nb: '${NO:-y}'\nc: ${EMPTY:-z}\nd: '${EMPTY}'\n", environ) == {
        "a": "/srv/x", "b": "y", "c": "z", "d": "",
    }  # fmt: skip


def test_a_plain_variable_takes_its_type_from_its_value_and_a_quoted_one_stays_text():
    assert values("a: ${N}\nb: '${N}'\nc: ${T:-true}\n", {"N": "7"}) == {"a": 7, "b": "7", "c": True}


def test_a_value_of_the_environment_is_never_yaml():
    assert values("a: ${X}\n", {"X": "{b: [1]}\nc: d"}) == {"a": "{b: [1]}\nc: d"}


def test_a_missing_variable_is_an_error_with_its_line():
    ((line, key, text),) = complaints("a: 1\nb: x${NOT_SET}\n")
    assert (line, key) == (2, "b")
    assert "NOT_SET" in text


def test_an_unfinished_variable_is_an_error_and_a_doubled_dollar_is_plain_text():
    assert "'${' without" in complaints("a: 'x${B'\n")[0][2]
    assert values("a: '$${B} $5 [0-9]+$'\n") == {"a": "${B} $5 [0-9]+$"}


def test_a_tag_that_would_build_an_object_is_refused():
    for value in ("!!python/object/apply:os.system ['true']", "!!python/name:os.system", "!x {a: 1}", "!x 1"):
        ((line, _, text),) = complaints(f"a: 1\nb: {value}\n")
        assert line == 2
        assert "tag" in text


def test_a_date_that_is_none_is_an_error_with_its_line():
    ((line, key, text),) = complaints("a: 1\nb: 2024-13-01\n")
    assert (line, key) == (2, "b")
    assert "quotes" in text


def test_what_is_no_yaml_says_where():
    ((line, _, text),) = complaints("a: 1\nb: [1, 2\nc: 3\n")
    assert line in (2, 3)
    assert "not valid YAML" in text


def test_an_empty_file_a_binary_file_and_two_documents_are_errors():
    assert "empty" in complaints("")[0][2]
    assert "empty" in complaints("# only a comment\n")[0][2]
    assert "not a text file" in complaints("a: \x00\n")[0][2]
    assert "not valid YAML" in complaints("a: 1\n---\nb: 2\n")[0][2]


def test_an_anchor_that_contains_itself_ends_in_an_error():
    assert "contains itself" in complaints("a: &x\n  b: *x\n")[0][2]


@pytest.mark.parametrize("repeat", ["[{0}, {0}]", "{{<<: [{0}, {0}]}}", "{{<<: {0}, x: {0}, y: {0}}}"])
def test_a_bomb_of_aliases_is_an_error_with_its_line_in_a_moment(repeat):
    bomb = "a0: &a0 {x: 1}\n"
    bomb += "".join(f"a{n}: &a{n} {repeat.format(f'*a{n - 1}')}\n" for n in range(1, 60))
    [(line, _, text)] = complaints(bomb)
    assert line > 5 and "stand for more than 100,000 values" in text


def test_a_hundred_uses_of_one_anchor_are_fine():
    assert (
        complaints("base: &b {x: 1, y: [2, 3]}\n" + "".join(f"m{n}: {{<<: *b}}\n" for n in range(100))) == []
    )


@pytest.mark.parametrize(
    "text", ["[" * 5000, "a: " + "{x: " * 5000, "- " * 5000, "a0: &a0 [x]\n" + "".join(
        f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200))]
)  # fmt: skip
def test_nesting_without_end_is_an_error_and_not_a_crash(text):
    assert "nested more than 100 levels deep" in complaints(text)[0][2]


@pytest.mark.parametrize(
    "value", ["!!bool maybe", "!!timestamp x", "!!int ''", "!!float x", "!!int " + "9" * 5000]
)
def test_a_tag_that_its_value_does_not_fit_is_an_error_with_its_line(value):
    [(line, key, _)] = complaints(f"a: 1\nb: {value}\n")
    assert (line, key) == (2, "b")


def test_a_merged_key_gives_way_to_one_that_is_written_out():
    root, problems = read_lines("base: &b {x: 1, y: 2}\nmine: {<<: *b, x: 3}\n", {})
    assert problems == []
    assert {name: line.value for name, line in root.value["mine"].value.items()} == {"x": 3, "y": 2}
