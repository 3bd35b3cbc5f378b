"""Awkward files, each with what it says: the rows that a careful person would read from it.

`columns` are the names, None where the file has none and any will do. Values are typed, or text where no type
holds all of them; a file that nobody can read without asking has `refused`.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Case:
    name: str
    file: str
    data: bytes
    columns: tuple[str | None, ...] = ()
    rows: tuple[Row, ...] = ()
    bad: int = 0  # records that are no rows, and have to be named as such
    refused: str = ""  # a word of the reason


CASES: list[Case] = []

SHIPS = (
    (1, "Aurora", 812.5, date(2024, 3, 1)),
    (2, "Beagle", 40.0, date(2024, 3, 17)),
    (3, "Calypso", 1200.25, date(2023, 12, 31)),
    (4, "Discovery", 99.9, date(2024, 11, 5)),
    (5, "Endurance", 7.0, date(2022, 7, 30)),
)
COLUMNS = ("id", "ship", "tonnes", "sailed")


def case(name: str, data: str | bytes, columns: Sequence[str | None], rows: Iterable[Row], *,
         file: str = "data.csv", encoding: str = "utf-8", bad: int = 0) -> None:  # fmt: skip
    raw = data if isinstance(data, bytes) else data.encode(encoding)
    CASES.append(Case(name, file, raw, tuple(columns), tuple(tuple(row) for row in rows), bad))


def refused(name: str, data: str | bytes, word: str, *, file: str = "data.csv") -> None:
    raw = data if isinstance(data, bytes) else data.encode()
    CASES.append(Case(name, file, raw, refused=word))


def text(rows: Iterable[Sequence[Any]], header: Sequence[str] | None = COLUMNS, *, by: str = ",",
         end: str = "\n", quote: str = "", comma: bool = False, day: str = "%Y-%m-%d") -> str:  # fmt: skip
    def cell(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, datetime | date):
            return value.strftime(day)
        if isinstance(value, float) and comma:
            return str(value).replace(".", ",")
        if isinstance(value, str) and (quote or by in value or '"' in value or "\n" in value):
            mark = quote or '"'
            return f"{mark}{value.replace(mark, mark * 2)}{mark}"
        return str(value)

    lines = [by.join(map(cell, row)) for row in rows]
    return end.join([*([by.join(header)] if header else []), *lines, ""])


def with_words(column: int, *words: str) -> list[list[Any]]:
    """Ships with words for nothing in one column: in every other row."""
    rows = [list(row) for row in SHIPS for _ in range(2)]
    for at, row in enumerate(rows):
        row[0] = at + 1
        if at % 2:
            row[column] = words[at // 2 % len(words)]
    return rows


def without(rows: list[list[Any]], *words: str) -> list[Row]:
    return [tuple(None if value in words else value for value in row) for row in rows]


# Plain, so that nothing is broken that was whole.
case("plain", text(SHIPS), COLUMNS, SHIPS)
case("semicolon", text(SHIPS, by=";"), COLUMNS, SHIPS)
case("tab", text(SHIPS, by="\t"), COLUMNS, SHIPS, file="data.tsv")
case("tab in a .csv", text(SHIPS, by="\t"), COLUMNS, SHIPS)
case("pipe", text(SHIPS, by="|"), COLUMNS, SHIPS, file="data.txt")
case("colon", text([(n, s, t) for n, s, t, _ in SHIPS], COLUMNS[:3], by=":"), COLUMNS[:3],
     [row[:3] for row in SHIPS])  # fmt: skip
case("space", text(SHIPS, by=" "), COLUMNS, SHIPS, file="data.txt")
case("caret", text(SHIPS, by="^"), COLUMNS, SHIPS)
case("unit separator", text(SHIPS, by="\x1f"), COLUMNS, SHIPS)

# Names that are missing, doubled or not there at all.
case("pandas index", text([(n - 1, s, t, d) for n, s, t, d in SHIPS], ("", *COLUMNS[1:])),
     (None, *COLUMNS[1:]), [(n - 1, s, t, d) for n, s, t, d in SHIPS])  # fmt: skip
case("two columns without a name", text(SHIPS, ("id", "", "tonnes", "")), ("id", None, "tonnes", None), SHIPS)
case("name twice", text(SHIPS, ("id", "ship", "ship", "sailed")), ("id", "ship", None, "sailed"), SHIPS)
case("name three times", text([(1, 2, 3), (4, 5, 6), (7, 8, 9)], ("a", "a", "a")), ("a", None, None),
     [(1, 2, 3), (4, 5, 6), (7, 8, 9)])  # fmt: skip
case(
    "index and name twice", text(SHIPS, ("", "ship", "ship", "sailed")), (None, "ship", None, "sailed"), SHIPS
)
case("headerless", text(SHIPS, None), (None,) * 4, SHIPS)
case("headerless words", text([("red", "DE"), ("blue", "FR"), ("red", "DE"), ("green", "DE")], None),
     (None, None), [("red", "DE"), ("blue", "FR"), ("red", "DE"), ("green", "DE")])  # fmt: skip
case("words under names", text([("Ann Lee", "Paris"), ("Bob Ray", "Lyon"), ("Cid Fox", "Nice")], ("name", "city")),
     ("name", "city"), [("Ann Lee", "Paris"), ("Bob Ray", "Lyon"), ("Cid Fox", "Nice")])  # fmt: skip
case("years as names", text([("Chad", 5, 6, 7), ("Mali", 8, 9, 10), ("Togo", 1, 2, 3)], ("country", "1990", "1991", "1992")),
     ("country", "1990", "1991", "1992"), [("Chad", 5, 6, 7), ("Mali", 8, 9, 10), ("Togo", 1, 2, 3)])  # fmt: skip
case("R row names", "ship tonnes\n" + "".join(f'"{n}" "{s}" {t}\n' for n, s, t, _ in SHIPS),
     (None, "ship", "tonnes"), [row[:3] for row in SHIPS], file="data.txt")  # fmt: skip
case("only a header", "id,ship,tonnes\n", ("id", "ship", "tonnes"), [])
case("one row", "id,ship,tonnes\n1,Aurora,5.5\n", ("id", "ship", "tonnes"), [(1, "Aurora", 5.5)])
case("no line end at the end", text(SHIPS).rstrip("\n"), COLUMNS, SHIPS)
case("one column", "ship\nAurora\nBeagle\nCalypso\n", ("ship",), [("Aurora",), ("Beagle",), ("Calypso",)])
case("one column of numbers", "n\n1\n2\n3\n", ("n",), [(1,), (2,), (3,)])
case("one column of times", "at\n2024-03-01 10:00:00\n2024-03-02 11:30:00\n2024-03-03 09:15:00\n", ("at",),
     [(datetime(2024, 3, 1, 10),), (datetime(2024, 3, 2, 11, 30),), (datetime(2024, 3, 3, 9, 15),)])  # fmt: skip
case("leading zeros", text([("00501", 5), ("10001", 6), ("02134", 7)], ("zip", "n")), ("zip", "n"),
     [("00501", 5), ("10001", 6), ("02134", 7)])  # fmt: skip

# Encodings and line ends.
PLACES = (
    ("Göteborg", "Älvsborg", 1),
    ("Århus", "Jütland", 2),
    ("São Paulo", "café", 3),
    ("Zürich", "Größe", 4),
)
case("latin-1", text(PLACES, ("stadt", "straße", "n")), ("stadt", "straße", "n"), PLACES, encoding="latin-1")
QUOTED = (("“Aurora”", "5 €", 1), ("Seaman’s rest", "10 €", 2), ("Fjord – north", "7 €", 3))
case("windows-1252", text(QUOTED, ("name", "price", "n")), ("name", "price", "n"), QUOTED, encoding="cp1252")
case("windows-1252 with semicolons and decimal commas",
     text([(p, s, n + 0.5) for p, s, n in PLACES], ("stadt", "land", "wert"), by=";", comma=True),
     ("stadt", "land", "wert"), [(p, s, n + 0.5) for p, s, n in PLACES], encoding="cp1252")  # fmt: skip
case("utf-16", text(PLACES, ("a", "b", "c")), ("a", "b", "c"), PLACES, encoding="utf-16")
case("utf-16 with tabs", text(PLACES, ("a", "b", "c"), by="\t", end="\r\n"), ("a", "b", "c"), PLACES,
     encoding="utf-16", file="data.txt")  # fmt: skip
case(
    "utf-16-le without a mark",
    text(PLACES, ("alpha", "beta", "c")),
    ("alpha", "beta", "c"),
    PLACES,
    encoding="utf-16-le",
)
case(
    "utf-8 with a mark", text(PLACES, ("stadt", "b", "c")), ("stadt", "b", "c"), PLACES, encoding="utf-8-sig"
)
case("utf-8 with a mark and quotes", '\ufeff"id","ship"\n"1","Aurora"\n"2","Bea,gle"\n', ("id", "ship"),
     [(1, "Aurora"), (2, "Bea,gle")])  # fmt: skip
case("mac-roman", text(PLACES, ("a", "b", "c")), ("a", "b", "c"), PLACES, encoding="mac-roman")
CITIES = (("Москва", 1), ("Казань", 2), ("Самара", 3))
case("windows-1251", text(CITIES, ("город", "n")), ("город", "n"), CITIES, encoding="cp1251")
case("utf-8 after many lines of ASCII", text([*[(n, "x", n) for n in range(3000)], (3000, "é", 1)], ("id", "s", "n")),
     ("id", "s", "n"), [*[(n, "x", n) for n in range(3000)], (3000, "é", 1)])  # fmt: skip
case("latin-1 after many lines of ASCII", text([*[(n, "x", n) for n in range(30000)], (30000, "Köln", 1)], ("id", "s", "n")),
     ("id", "s", "n"), [*[(n, "x", n) for n in range(30000)], (30000, "Köln", 1)], encoding="latin-1")  # fmt: skip
case("CR line ends", text(SHIPS, end="\r"), COLUMNS, SHIPS)
case("CRLF line ends", text(SHIPS, end="\r\n"), COLUMNS, SHIPS)
case("CR line ends and lines before the header", "Report\r\r" + text(SHIPS, end="\r"), COLUMNS, SHIPS)

# Quotes and values that span lines.
NOTES = ((1, "two\nlines", 5), (2, "plain", 6), (3, 'says "hi",\n\nthen goes', 7))
case("values that span lines", text(NOTES, ("id", "note", "n")), ("id", "note", "n"), NOTES)
case(
    "values that span lines, with semicolons",
    text(NOTES, ("id", "note", "n"), by=";"),
    ("id", "note", "n"),
    NOTES,
)
LATE = [*[(n, "plain", n) for n in range(4000)], (4000, "two\nlines", 1)]
case("a value that spans lines far down", text(LATE, ("id", "note", "n")), ("id", "note", "n"), LATE)
case("a value of a page", text([(1, "\n".join(["some words, more words"] * 200), 5), (2, "x", 6), (3, "y", 7)], ("id", "note", "n")),
     ("id", "note", "n"), [(1, "\n".join(["some words, more words"] * 200), 5), (2, "x", 6), (3, "y", 7)])  # fmt: skip
SINGLE = ((1, "Bea,gle", 5), (2, "O'Neil", 6), (3, "x, y", 7))
case("single quotes", text(SINGLE, ("id", "ship", "n"), quote="'"), ("id", "ship", "n"), SINGLE)
case("quotes escaped by a backslash", 'id,note,n\n1,"says \\"hi\\", goes",5\n2,"x",6\n3,"a \\"b\\" c",7\n',
     ("id", "note", "n"), [(1, 'says "hi", goes', 5), (2, "x", 6), (3, 'a "b" c', 7)])  # fmt: skip
case("everything in quotes", '"id","ship","n"\n"1","Aurora","5"\n"2","Beagle","6"\n', ("id", "ship", "n"),
     [(1, "Aurora", 5), (2, "Beagle", 6)])  # fmt: skip
case("inches", 'id\tdisk\tn\n1\t5.25" floppy\t3\n2\t3.5" floppy\t4\n3\ttape\t9\n', ("id", "disk", "n"),
     [(1, '5.25" floppy', 3), (2, '3.5" floppy', 4), (3, "tape", 9)])  # fmt: skip
case("a quote that is none", 'id\tname\tn\n1\t"Big Joe\t3\n2\tAnn\t4\n3\tBo\t5\n', ("id", "name", "n"),
     [(1, '"Big Joe', 3), (2, "Ann", 4), (3, "Bo", 5)])  # fmt: skip
case("delimiters in quotes", text([(1, "a,b;c|d", 5), (2, "e;f,g", 6), (3, "h|i", 7)], ("id", "s", "n")), ("id", "s", "n"),
     [(1, "a,b;c|d", 5), (2, "e;f,g", 6), (3, "h|i", 7)])  # fmt: skip

# Lines that are no records.
case("title before the header", "Ships of 2024\n\n" + text(SHIPS), COLUMNS, SHIPS)
case(
    "four lines before the header",
    "Ships\nExported: 2024-03-01, by Ann\nSource: port office\n\n" + text(SHIPS),
    COLUMNS,
    SHIPS,
)
case("title as wide as the table", "Ships of 2024,,,\n,,,\n" + text(SHIPS), COLUMNS, SHIPS)
case(
    "lines before a table without a header",
    "Ships of 2024\nport office\n" + text(SHIPS, None),
    (None,) * 4,
    SHIPS,
)
case("comments before the header", "# ships\n# exported today, by Ann\n" + text(SHIPS), COLUMNS, SHIPS)
case(
    "comments between rows",
    "# ships, all\n" + text(SHIPS[:2]) + "# late, and lost\n" + text(SHIPS[2:], None),
    COLUMNS,
    SHIPS,
)
case("comments by %", "% ships\n" + text(SHIPS[:2], by="\t") + "% late\n" + text(SHIPS[2:], None, by="\t"), COLUMNS, SHIPS,
     file="data.txt")  # fmt: skip
case("name with a hash", text(SHIPS, ("#id", *COLUMNS[1:])), ("#id", *COLUMNS[1:]), SHIPS)
case("blank lines between rows", text(SHIPS).replace("\n", "\n\n"), COLUMNS, SHIPS)
case(
    "delimiter at the end of every line",
    text(SHIPS).replace("\n", ",\n"),
    (*COLUMNS, None),
    [(*row, None) for row in SHIPS],
)
case("delimiter at the end of rows only", text(SHIPS, None).replace("\n", ",\n").join(["id,ship,tonnes,sailed\n", ""]),
     (*COLUMNS, None), [(*row, None) for row in SHIPS])  # fmt: skip
case("short rows", "id,ship,tonnes,port\n1,Aurora,5.5,Kiel\n2,Beagle,6.5\n3,Calypso,7.5,Bari\n4,Dora\n5,Endurance,1.5,Oslo\n",
     ("id", "ship", "tonnes", "port"),
     [(1, "Aurora", 5.5, "Kiel"), (2, "Beagle", 6.5, None), (3, "Calypso", 7.5, "Bari"), (4, "Dora", None, None),
      (5, "Endurance", 1.5, "Oslo")])  # fmt: skip
case("rows of any length under a long header",
     "id,name,built,sold,lost\n1,Aurora,1900-01-01\n2,Beagle,1820-05-11,1870-01-01,1880-01-01\n3,Cap,1950-02-03\n4,Dora,1999-01-02,2001-01-01\n5,Eos,1910-10-10\n",
     ("id", "name", "built", "sold", "lost"),
     [(1, "Aurora", date(1900, 1, 1), None, None), (2, "Beagle", date(1820, 5, 11), date(1870, 1, 1), date(1880, 1, 1)),
      (3, "Cap", date(1950, 2, 3), None, None), (4, "Dora", date(1999, 1, 2), date(2001, 1, 1), None),
      (5, "Eos", date(1910, 10, 10), None, None)])  # fmt: skip
case("a total at the end", text(SHIPS) + "5 rows in all\n", COLUMNS, SHIPS, bad=1)
MANY = [(n, f"ship {n}", n / 4, date(2024, 1, 1 + n % 28)) for n in range(1, 60)]
case(
    "one row too long",
    text(MANY[:30]) + "31,x,y,2024-01-01,2,3\n" + text(MANY[30:], None),
    COLUMNS,
    MANY,
    bad=1,
)

# Words for nothing.
for words in (
    ("NA",),
    ("N/A", "NULL"),
    ("-",),
    ("null", "nan"),
    ("\\N",),
    ("NA", "N/A", "-", "null"),
    (".",),
    ("#N/A", "#DIV/0!"),
):
    rows = with_words(2, *words)
    case(f"nulls written {' '.join(words)}", text(rows), COLUMNS, without(rows, *words))
rows = with_words(3, "NA", "n/a")
case("nulls among dates", text(rows, by=";", day="%d.%m.%Y"), COLUMNS, without(rows, "NA", "n/a"))
case("a country called NA", text([("NA", "Windhoek"), ("DE", "Berlin"), ("FR", "Paris")], ("code", "city")), ("code", "city"),
     [("NA", "Windhoek"), ("DE", "Berlin"), ("FR", "Paris")])  # fmt: skip

# Numbers and dates as people write them.
case("decimal comma", text(SHIPS, by=";", comma=True), COLUMNS, SHIPS)
case("decimal comma and German dates", text(SHIPS, by=";", comma=True, day="%d.%m.%Y"), COLUMNS, SHIPS)
case("decimal comma with tabs", text(SHIPS, by="\t", comma=True), COLUMNS, SHIPS, file="data.tsv")
case("decimal comma in quotes", 'id,wert,n\n1,"1,5",3\n2,"22,75",4\n3,"0,125",5\n', ("id", "wert", "n"),
     [(1, 1.5, 3), (2, 22.75, 4), (3, 0.125, 5)])  # fmt: skip
case("thousands", 'id,people,n\n1,"1,234",3\n2,"22,750",4\n3,"1,234,567",5\n', ("id", "people", "n"),
     [(1, "1,234", 3), (2, "22,750", 4), (3, "1,234,567", 5)])  # fmt: skip
case("dd.mm.yyyy", text(SHIPS, day="%d.%m.%Y"), COLUMNS, SHIPS)
case("mm/dd/yyyy", text(SHIPS, day="%m/%d/%Y"), COLUMNS, SHIPS)
case("dd/mm/yyyy", text(SHIPS, day="%d/%m/%Y"), COLUMNS, SHIPS)
case("m/d/yyyy", text(SHIPS, day="%-m/%-d/%Y"), COLUMNS, SHIPS)
case("dd-MMM-yyyy", text(SHIPS, day="%d-%b-%Y"), COLUMNS, SHIPS)
case("yyyy/mm/dd", text(SHIPS, day="%Y/%m/%d"), COLUMNS, SHIPS)
TIMES = tuple((n, s, datetime(d.year, d.month, d.day, 10 + n, 30)) for n, s, _, d in SHIPS)
case(
    "dd.mm.yyyy hh:mm",
    text(TIMES, ("id", "ship", "at"), by=";", day="%d.%m.%Y %H:%M"),
    ("id", "ship", "at"),
    TIMES,
)
case(
    "mm/dd/yyyy hh:mm AM",
    text(TIMES, ("id", "ship", "at"), day="%m/%d/%Y %I:%M %p"),
    ("id", "ship", "at"),
    TIMES,
)
case("ISO times with a zone", text(TIMES, ("id", "ship", "at"), day="%Y-%m-%dT%H:%M:%SZ"), ("id", "ship", "at"),
     [(n, s, at.replace(tzinfo=UTC)) for n, s, at in TIMES])  # fmt: skip
case("dates and times, neither ISO", text([(n, d.strftime("%d.%m.%Y"), at.strftime("%d.%m.%Y %H:%M:%S")) for (n, _, at), (_, _, _, d) in zip(TIMES, SHIPS, strict=True)], ("id", "day", "at"), by=";"),
     ("id", "day", "at"), [(n, d, at) for (n, _, at), (_, _, _, d) in zip(TIMES, SHIPS, strict=True)])  # fmt: skip
MIXED = [(n, d.strftime("%d.%m.%Y" if n % 2 else "%Y-%m-%d")) for n, _, _, d in SHIPS]
case(
    "two date patterns in a column",
    text(MIXED, ("id", "day")),
    ("id", "day"),
    [(n, d) for n, _, _, d in SHIPS],
)
case("dates that read both ways", text([(1, "01/02/2024"), (2, "03/04/2024"), (3, "05/06/2024")], ("id", "day")), ("id", "day"),
     [(1, "01/02/2024"), (2, "03/04/2024"), (3, "05/06/2024")])  # fmt: skip
case("times of day", text([(1, "10:30"), (2, "11:45"), (3, "09:15")], ("id", "at")), ("id", "at"),
     [(1, "10:30"), (2, "11:45"), (3, "09:15")])  # fmt: skip
case("spaces behind commas", text(SHIPS).replace(",", ", "), COLUMNS, SHIPS)
case("aligned with spaces", "id ; ship      ; tonnes\n 1 ; Aurora    ;   12.5\n 2 ; Beagle    ;    7.0\n 3 ; Endurance ;  812.25\n",
     ("id", "ship", "tonnes"), [(1, "Aurora", 12.5), (2, "Beagle", 7.0), (3, "Endurance", 812.25)])  # fmt: skip

case(
    "spaces before every text",
    "seed, word\n0, 0xfe\n1, 0xa0\n2, 0x1b\n",
    ("seed", "word"),
    [(0, "0xfe"), (1, "0xa0"), (2, "0x1b")],
)
case("long texts", text([(1, "She said: yes, of course; why not?", 5), (2, "A | B, and C; see http://x.org/?a=1,2", 6), (3, "none of it, really", 7)], ("id", "note", "n")),
     ("id", "note", "n"), [(1, "She said: yes, of course; why not?", 5), (2, "A | B, and C; see http://x.org/?a=1,2", 6), (3, "none of it, really", 7)])  # fmt: skip

# Compression, width.
case("gz", gzip.compress(text(SHIPS, by=";").encode()), COLUMNS, SHIPS, file="data.csv.gz")
case(
    "bz2",
    bz2.compress(text(PLACES, ("a", "b", "c")).encode("cp1252")),
    ("a", "b", "c"),
    PLACES,
    file="data.csv.bz2",
)
case(
    "zst",
    pa.compress(text(SHIPS, by="|").encode(), codec="zstd", asbytes=True),
    COLUMNS,
    SHIPS,
    file="data.csv.zst",
)
WIDE = [tuple(n * k for k in range(3000)) for n in (1, 2, 3)]
case("3,000 columns", text(WIDE, [f"c{k}" for k in range(3000)]), [f"c{k}" for k in range(3000)], WIDE)

# Several at once.
case("all of Excel in Germany",
     "Bericht;;;\n;;;\n" + text(with_words(2, "-"), ("Nr", "Schiff", "Größe", "Tag"), by=";", comma=True, day="%d.%m.%Y", end="\r\n"),
     ("Nr", "Schiff", "Größe", "Tag"), without(with_words(2, "-"), "-"), encoding="cp1252")  # fmt: skip
case("pandas index, nulls and spanning values", text([(0, "a\nb", "NA", 1.5), (1, "c", 2, 2.5), (2, "d,e", 3, "NA")], ("", "note", "n", "x")),
     (None, "note", "n", "x"), [(0, "a\nb", None, 1.5), (1, "c", 2, 2.5), (2, "d,e", 3, None)])  # fmt: skip
case("utf-16, lines before the header, tabs, decimal commas",
     "Export\n\n" + text(SHIPS, by="\t", comma=True, day="%d.%m.%Y"), COLUMNS, SHIPS, encoding="utf-16", file="data.txt")  # fmt: skip
case("comments, short rows and nulls in latin-1",
     "# Häfen\nid,ort,n,x\n1,Köln,NA,1.5\n2,Bonn\n# Rest\n3,Düren,5,2.5\n4,Jülich,6,3.5\n",
     ("id", "ort", "n", "x"), [(1, "Köln", None, 1.5), (2, "Bonn", None, None), (3, "Düren", 5, 2.5), (4, "Jülich", 6, 3.5)],
     encoding="latin-1")  # fmt: skip

# What nobody can decide, or what is no table.
refused("empty", b"", "empty")
refused("nothing but line ends", b"\n\n\n", "empty")
refused("two delimiters equally good", "red;blue,green\nyes;no,maybe\nup;down,left\n", "equally well")
refused(
    "prose",
    "Call me Ishmael. Some years ago, never mind how long precisely.\nIt is a way I have of driving off the spleen.\nWhenever I find myself growing grim, I account it high time.\n",
    "table",
)
refused(
    "fixed width",
    "Aurora        8125 Kiel\nBeagle          40 Bari\nEndurance      700 Hamburg\nFram             9 Oslo\n",
    "fixed width",
    file="data.txt",
)
refused(
    "lines of a config",
    "Name: base-passwd\nOwner: base, passwd\n\nName: debconf\nValue: yes, and no\nFlags: seen\n",
    "table",
)
refused("a workbook called .csv", b"PK\x03\x04\x14\x00\x06\x00" + b"\x00" * 60, "xlsx")
refused("gzip without its suffix", gzip.compress(text(SHIPS).encode()), ".gz")
