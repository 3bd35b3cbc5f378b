"""Which encoding a text is in, from its bytes alone."""

import pytest

from lading.formats.sniff.encoding import encoding_of

LONG = "id,name\n" + "1,plain\n" * 50


@pytest.mark.parametrize(
    ("encoding", "text", "found"),
    [
        ("utf-8", "Müller,Größe", "utf-8"),
        ("utf-8-sig", "Müller", "utf-8"),
        ("ascii", "plain", "utf-8"),
        ("cp1252", "Müller,Größe “x” 5 €", "windows-1252"),
        ("latin-1", "São Paulo;Göteborg;Århus", "windows-1252"),
        ("cp1252", "ÄRGER,ÜBER", "windows-1252"),
        ("cp1252", "it’s – well… 5 °C", "windows-1252"),
        ("mac-roman", "Müller,Größe,café", "mac-roman"),
        ("cp850", "Müller,Größe,café", "cp850"),
        ("cp1250", "Łódź,Gdańsk,Kraków,Škoda", "windows-1250"),
        ("cp1251", "Москва,Самара", "windows-1251"),
        ("koi8-r", "Москва,Самара", "koi8-r"),
        ("shift_jis", "東京,おおさか", "shift_jis"),
        ("utf-16", "ü", "utf-16"),
        ("utf-16-le", "ü", "utf-16-le"),
        ("utf-16-be", "ü", "utf-16-be"),
        ("utf-32", "ü", "utf-32"),
    ],
)
def test_an_encoding_is_recognised(encoding, text, found):
    data = (LONG + text + "\n").encode(encoding)
    assert encoding_of([data]).name == found


@pytest.mark.parametrize("size", [1, 7, 64])
def test_where_blocks_are_cut_does_not_matter(size):
    data = (LONG + "Müller\r" + LONG + "Größe\n").encode()
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    assert encoding_of(blocks) == encoding_of([data])


def test_a_few_bad_lines_do_not_make_an_old_encoding_of_a_text():
    good = "Größe,é\n" * 20
    found = encoding_of([good.encode() + b"K\xf6ln\n" + good.encode()])
    assert (found.name, found.bad_lines) == ("utf-8", 1)


def test_bytes_that_spell_nothing_are_not_guessed_at():
    noise = bytes(range(128, 256)) * 20
    found = encoding_of([b"a,b\n" + noise + b"\n"])
    assert found.name is None
    assert "windows-1252" in found.because


def test_what_reads_as_several_languages_is_not_guessed_at():
    found = encoding_of(["北京,上海市,广州\n".encode("gb18030")])
    assert found.name is None and "gb18030" in found.because
