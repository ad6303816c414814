"""URL patterns: which URLs of a host are spelled alike, so that what some of them showed can be expected of the others.

A URL's *shape* is its path with a class in place of each segment, and the sorted names of its query parameters:
`/{slug}/{int}/{int}?view`. It is told from the URL alone. A *pattern* is a shape in which frequent segments stand as
they are: `/calendar/{int}/{int}?view`. Which are frequent is learnt per host and path of shapes, whatever parameters
follow (`grown`): a segment becomes a literal once at least LITERAL_URLS known URLs, and LITERAL_SHARE of those of the
path, have it in that place, and stays one, so that counts kept by pattern go on meaning the same. Where a place would
have over SIBLINGS literals they are merged again (the pattern tree of Lei et al. 2010, WWW): then the place holds
content, not structure.

Nothing is fetched or remembered here. Bounds: a path keeps CANDIDATES segments that may become literals, those counted
most, so that of millions of words none costs memory. Columns at a time: a round finds tens of thousands of URLs.

Invariant: a pattern depends on the URL and on the literals it is given, never on the order of URLs.
"""

from dataclasses import dataclass

import polars as pl

LITERAL_URLS = 20
LITERAL_SHARE = 0.03
"""Both must hold. With either alone words that a maze deals out at random become literals, and each page a pattern."""
SIBLINGS = 50
CANDIDATES = 24
PLACES = 16
"""Segments of a path that are told apart; admission refuses longer paths long before."""
LONGEST = 40
"""Characters of a literal; what is longer names content."""
MERGED = ""
"""In place of a segment: the place has had too many literals and takes no more. No segment is empty."""

WORDS = {"host": pl.String, "path": pl.String, "place": pl.Int8, "segment": pl.String}

_ESCAPES = r"%[0-9A-Fa-f]{2}"
_DATE = r"^(19|20)\d\d(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?|(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01]))$"
_TWO_WORDS = r"[A-Za-z]{2,}[-_+.~]+[A-Za-z]{2,}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """URLs taken apart, once for all that is asked of them."""

    found: pl.DataFrame
    segments: pl.DataFrame
    shapes: pl.DataFrame

    @classmethod
    def of(cls, rows: pl.DataFrame) -> "Parsed":
        """Take apart the URLs of rows with host and url."""
        found = rows.select("host", "url").unique(maintain_order=True).with_row_index("_url")
        segments = _segments(found)
        return cls(found, segments, _shapes(segments, found))

    def named(self, literals: pl.DataFrame | None = None) -> pl.DataFrame:
        """Host, url, `shape` and `pattern` of each. `literals`: columns WORDS."""
        patterns = self.shapes.with_columns(pattern="shape")
        if literals is not None and literals.height:
            patterns = _with_literals(self.segments, self.shapes, literals)
        return self.found.join(patterns.select("_url", "shape", "pattern"), on="_url").drop("_url")

    def grown(self, words: pl.DataFrame, rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
        """What is learnt of paths, with those of the URLs (host and url) that became known: see `grown`."""
        of = self.found.join(rows.select("host", "url").unique(), on=["host", "url"], how="semi").select("_url")
        candidates = self.segments.filter("candidate").join(of, on="_url").join(self.shapes, on="_url")
        if candidates.is_empty() and words.is_empty():
            return words
        new = candidates.group_by(list(WORDS)).agg(count=pl.len().cast(pl.Int64), literal=pl.lit(value=False))
        both = pl.concat([words.select(new.columns), new]).group_by(list(WORDS)).agg(
            pl.col("count").sum(), pl.col("literal").any()
        )  # fmt: skip
        both = both.join(known.select("host", "path", "known"), on=["host", "path"], how="left")
        return _kept(_merged(both.with_columns(literal=pl.col("literal") | _is_frequent()).drop("known")))


def keyed(rows: pl.DataFrame, literals: pl.DataFrame | None = None) -> pl.DataFrame:
    """Add `shape` and `pattern` to rows with host and url. `literals`: columns WORDS."""
    return rows.join(Parsed.of(rows).named(literals), on=["host", "url"], how="left", maintain_order="left")


def literals_of(words: pl.DataFrame) -> pl.DataFrame:
    """Of what is learnt of hosts (columns WORDS, count, literal) those that are literals."""
    return words.filter(pl.col("literal") & (pl.col("segment") != MERGED)).select(list(WORDS))


def grown(words: pl.DataFrame, rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """What is learnt of paths, with URLs that became known.

    words: columns WORDS, count and literal, so far; rows: host and url of new URLs; known: host, path and `known`, how
    many URLs of the path there are with these. Gives the words of the paths that the new URLs have.
    """
    return Parsed.of(rows).grown(words, rows, known)


def _is_frequent() -> pl.Expr:
    closed = (pl.col("segment") == MERGED).any().over("host", "path", "place")
    often = (pl.col("count") >= LITERAL_URLS) & (pl.col("count") >= LITERAL_SHARE * pl.col("known").fill_null(0))
    return often & ~closed


def _merged(words: pl.DataFrame) -> pl.DataFrame:
    """Take literals back where a place has too many, and leave a mark that says so."""
    place = ["host", "path", "place"]
    full = words.filter("literal").group_by(place).len().filter(pl.col("len") > SIBLINGS).select(place)
    if full.is_empty():
        return words
    marks = full.with_columns(segment=pl.lit(MERGED), count=pl.lit(0, pl.Int64), literal=pl.lit(value=True))
    left = words.join(full, on=place, how="anti")
    return pl.concat([left, marks.select(words.columns)])


def _kept(words: pl.DataFrame) -> pl.DataFrame:
    """Literals, and of each shape the candidates that were counted most."""
    rest = words.filter(~pl.col("literal")).sort("count", "place", "segment", descending=[True, False, False])
    first = rest.group_by("host", "path", maintain_order=True).head(CANDIDATES)
    return pl.concat([words.filter("literal"), first.select(words.columns)]).sort(list(WORDS))


# URLs, part by part.


def _rest() -> pl.Expr:
    """Path and query: a canonical URL is scheme, nothing, authority and the rest between its first three slashes."""
    return pl.col("url").str.splitn("/", 4).struct.field("field_3").fill_null("").str.splitn("?", 2)


def _segments(found: pl.DataFrame) -> pl.DataFrame:
    """One row per segment: _url, host, place, segment, class, and whether it may become a literal."""
    path = _rest().struct.field("field_0").fill_null("").str.split("/").list.head(PLACES)
    each = found.select("_url", "host", segment=path).explode("segment")
    each = each.with_columns(place=pl.int_range(pl.len()).over("_url").cast(pl.Int8))
    classes = each.select("segment").unique().with_columns(_class_of_segment()).with_columns(_may_be_literal())
    return (
        each.join(classes, on="segment", how="left", maintain_order="left").drop("segment").rename({"base": "segment"})
    )


def _class_of_segment() -> list[pl.Expr]:
    """`class` of a segment with its ending and the names of its path parameters; `base`, it without their values."""
    parts = pl.col("segment").str.splitn(";", 2)
    base, after = parts.struct.field("field_0"), parts.struct.field("field_1")
    named = pl.when(after.is_null()).then(pl.lit("")).otherwise(pl.lit(";") + after.str.extract(r"^([^=;]*)"))
    ending = base.str.extract(r"^.+(\.[A-Za-z][A-Za-z0-9]{0,4})$").fill_null("")
    stem = base.str.replace(r"^(.+)\.[A-Za-z][A-Za-z0-9]{0,4}$", "${1}")
    return [(_class(stem) + ending.str.to_lowercase() + named).alias("class"), (base + named).alias("base")]


def _may_be_literal() -> pl.Expr:
    """Words may; a name with a number in it, such as `p17`, counts things."""
    return (pl.col("class").str.starts_with("{slug}") & (pl.col("base").str.len_chars() <= LONGEST)).alias("candidate")


def _class(text: pl.Expr) -> pl.Expr:
    """The class of a text; escapes count as letters."""
    plain = text.str.replace_all(_ESCAPES, "x")
    digit, letter = plain.str.contains(r"\d"), plain.str.contains(r"\p{L}")
    return (
        pl.when(plain == "").then(pl.lit(""))
        .when(plain.str.contains(_DATE)).then(pl.lit("{date}"))
        .when(plain.str.contains(r"^[+-]?\d+$")).then(pl.lit("{int}"))
        .when(plain.str.contains(r"^[0-9a-fA-F-]{8,}$") & digit).then(pl.lit("{hex}"))
        .when(plain.str.contains(_TWO_WORDS)).then(pl.lit("{slug}"))
        .when(digit & letter).then(pl.lit("{mixed}"))
        .otherwise(pl.lit("{slug}"))
    )  # fmt: skip


def _shapes(segments: pl.DataFrame, found: pl.DataFrame) -> pl.DataFrame:
    made = _joined(segments, _names(found), "class").rename({"_joined": "shape"})
    return made.with_columns(path=path_of("shape"))


def path_of(pattern: str) -> pl.Expr:
    """The part of a pattern or shape before its parameters."""
    return pl.col(pattern).str.splitn("?", 2).struct.field("field_0")


def _joined(segments: pl.DataFrame, names: pl.DataFrame, column: str) -> pl.DataFrame:
    paths = segments.group_by("_url", maintain_order=True).agg(pl.col(column).str.join("/"))
    both = paths.join(names, on="_url", how="left")
    return both.select("_url", _joined=pl.lit("/") + pl.col(column) + pl.col("names").fill_null(""))


def _names(found: pl.DataFrame) -> pl.DataFrame:
    """The query of each URL that has one, as `?` and the sorted names of its parameters."""
    query = found.select("_url", part=_rest().struct.field("field_1").str.split("&")).drop_nulls()
    each = query.explode("part").filter(pl.col("part") != "")
    pair = pl.col("part").str.splitn("=", 2)
    name, has_value = pair.struct.field("field_0"), pair.struct.field("field_1").is_not_null()
    listed = name.str.replace_all(r"(\[|%5B)\d+(\]|%5D)", "[]")
    plain = has_value & (_class(listed).is_in(["{slug}", "{mixed}"])) & (listed.str.len_chars() <= LONGEST)
    each = each.select("_url", name=pl.when(plain).then(listed).otherwise(_class(name)))
    return each.group_by("_url").agg(names=pl.lit("?") + pl.col("name").unique().sort().str.join("&"))


def _with_literals(segments: pl.DataFrame, shapes: pl.DataFrame, literals: pl.DataFrame) -> pl.DataFrame:
    """Shapes, and patterns with what is a literal in them."""
    told = segments.join(shapes, on="_url", maintain_order="left").join(
        literals.select(list(WORDS)).with_columns(_literal=pl.lit(value=True)), on=list(WORDS), how="left",
        maintain_order="left",
    )  # fmt: skip
    told = told.with_columns(shown=pl.when(pl.col("_literal")).then("segment").otherwise("class"))
    names = shapes.select("_url", names=pl.col("shape").str.extract(r"(\?.*)$"))
    return shapes.join(_joined(told, names, "shown").rename({"_joined": "pattern"}), on="_url")
