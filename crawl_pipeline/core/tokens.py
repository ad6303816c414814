"""Cut texts into the words that are compared, and give each word a number that means the same everywhere and for ever.

Decides what counts as the same word: NFKC and lower case, punctuation and white space dropped; dates, times and ids
(what a page says of its request, not of its subject) become one word of their kind each. Plain numbers stay: two
pages that differ in a price are two pages. Scripts that put no spaces between words (Han, kana, Thai and their like)
give a word per character, so that three words in a row are the 3-gram of characters that is usual for them.

Pure, and made for columns: regular expressions run in Polars over a whole batch, the hash once per distinct word.
Invariant: a text's words and their hashes depend on that text alone, not on its batch, process or machine.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from xxhash import xxh3_64_intdigest

from crawl_pipeline.core import cutting
from crawl_pipeline.core.cutting import Cut, Places

Hashes = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

DATE, TIME, ID = "0date", "0time", "0id"
"""What stands for a masked date, time or id. No text gives these by chance, and it would do no harm."""

NORMAL = (
    "\\x00-\\x7f\u00a1-\u00a7\u00a9\u00ab-\u00ae\u00b0\u00b1\u00b6\u00b7\u00bb\u00bf-\u0131\u0134-\u013e\u0141-\u0148\u014a-\u017e"
    "\u0391-\u03a1\u03a3-\u03ce\u0400-\u0482\u048a-\u052f\u05d0-\u05ea\u0621-\u064a\u2010\u2012-\u2016\u2018-\u2023\u2030-\u2032"
    "\u2039\u203a\u20ac\u2190-\u21ff\u2200-\u222b\u3001-\u3003\u3008-\u3011\u3041-\u3096\u30a1-\u30fa\u30fc\u4e00-\u9fff\uac00-\ud7a3"
)
"""Characters of which any text is its own NFKC: those of many texts, not all that there are; as a class."""

MOST_PHRASES = 1_000
"""Ligatures of a whole phrase (U+FDFA, U+FDFB), 18 and 8 characters in NFKC, with which a text is left as it is."""
_COMMON = {"\u00a0": " ", "\u2026": "..."}  # what most other texts have beyond these, with its NFKC
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_LETTERS = rf"\w--[{_UNSPACED}]"
_WORD = rf"[{_LETTERS}]+|[{_UNSPACED}]"
# English, German, French, Spanish. Longer names first: the first alternative that fits is taken.
_MONTHS = (
    "january jan januar janvier enero february feb februar février fevrier febrero march mar märz mars marzo april apr"
    " avril abril may mai mayo june jun juni juin junio july jul juli juillet julio august aug août aout agosto"
    " september sept sep septembre septiembre october oct oktober okt octobre octubre november nov novembre noviembre"
    " december dec dezember dez décembre decembre diciembre"
)
_MONTH = f"(?:{'|'.join(sorted(set(_MONTHS.split()), key=lambda name: (-len(name), name)))})"
# Only ASCII in what is repeated, and ASCII word boundaries: a Unicode boundary takes the engine off its fast path for
# every text that is not ASCII, which costs thirty times as much.
_EDGE, _GAP = r"(?-u:\b)", r"[ \t\r\n]+"
_WEEKDAY = rf"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?,?{_GAP})?"
_DAY, _YEAR = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?", r"(?:19|20)[0-9]{2}"
_CLOCK = r"[0-2]?[0-9]:[0-5][0-9](?::[0-6][0-9])?(?:[.,][0-9]+)?"
_ZONE = rf"(?: ?(?:(?:[ap]\.?m|utc|gmt|z){_EDGE}|[+-][0-9]{{2}}:?[0-9]{{2}}))*"
_DATES = "|".join(
    [
        rf"{_EDGE}{_YEAR}[-/.](?:0?[1-9]|1[0-2])[-/.]{_DAY}(?:[t ]{_CLOCK}{_ZONE})?{_EDGE}",
        rf"{_EDGE}(?:[0-3]?[0-9])[-/.][0-3]?[0-9][-/.]{_YEAR}{_EDGE}",
        rf"{_EDGE}{_WEEKDAY}{_DAY}\.?{_GAP}(?:(?:of|de){_GAP})?{_MONTH}\.?(?:,?{_GAP}(?:de{_GAP})?{_YEAR})?{_EDGE}",
        rf"{_EDGE}{_WEEKDAY}{_MONTH}\.?{_GAP}(?:{_DAY}(?:,?{_GAP}{_YEAR})?|{_YEAR}){_EDGE}",
        rf"{_YEAR}年[0-9]{{1,2}}月(?:[0-9]{{1,2}}日)?",
        rf"{_EDGE}[0-9]+{_GAP}(?:second|minute|hour|day|week|month|year)s?{_GAP}ago{_EDGE}",
    ]
)
_TIMES = rf"{_EDGE}{_CLOCK}{_ZONE}"
_UUIDS = rf"{_EDGE}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_EDGE}"
_SHORTEST_ID, _SHORTEST_MIXED_ID = 8, 12
_BLOCK, _LONGEST = 8, 48
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_BLOCK + 1)], np.uint64)


@dataclass(frozen=True, slots=True)
class Words:
    """Hashes of the words of many texts, one text after the other, and how many each text has."""

    hashes: Hashes
    counts: Counts


def masked(texts: pl.Series) -> pl.Series:
    """Bring texts to the form that is cut into words."""
    lower = _normal(texts).str.to_lowercase()
    return lower.str.replace_all(_UUIDS, ID).str.replace_all(_DATES, DATE).str.replace_all(_TIMES, TIME)


def _normal(texts: pl.Series) -> pl.Series:
    """Give the NFKC. It costs as much as cutting words, so it is left to texts that have more than NORMAL."""
    for character, instead in _COMMON.items():
        texts = texts.str.replace_all(character, instead, literal=True)
    odd = texts.str.contains(f"[^{NORMAL}]")
    if odd.any():  # a page of nothing else would grow eighteenfold, and hold up the commit of its round
        odd &= texts.str.count_matches("[\ufdfa\ufdfb]") <= MOST_PHRASES
    return (
        pl.select(pl.when(odd).then(texts.str.normalize("NFKC")).otherwise(texts)).to_series() if odd.any() else texts
    )


def words(texts: pl.Series) -> pl.Series:
    """List the words of each text, masked ones as what stands for them; of an empty text or null, none."""
    found = masked(texts.fill_null("")).str.extract_all(_WORD)
    return found.list.eval(pl.when(_is_id(pl.element())).then(pl.lit(ID)).otherwise(pl.element()))


def hashed(texts: pl.Series) -> Words:
    """Hash every word of every text: the hashes of `words`."""
    return _hashed(cutting.cut(masked(texts.fill_null("")), _LETTERS, _UNSPACED))


def numbered(lists: pl.Series) -> Words:
    """Hash every word of lists of words, ids masked; none of the lists is null."""
    counts = lists.list.len().to_numpy().astype(np.int64)
    octets, bounds = cutting.of_texts(lists.explode(empty_as_null=False, keep_nulls=False))
    return _hashed(Cut(octets, bounds[:-1], bounds[1:], counts))


def _hashed(cut: Cut) -> Words:
    hashes = _hashes(cut)
    hashes[_ids(cut)] = word_hash(ID)
    return Words(hashes, cut.counts)


def word_hash(word: str) -> int:
    """Hash one word to 64 bits; stored fingerprints depend on it, so it never changes.

    The hash is the length of its UTF-8 in bytes, and for each eight of these, the last ones filled up with zeros and
    read as a little-endian number, becomes `mixed(hash ^ number)`. Over _LONGEST bytes it is the XXH3, seed 0.
    """
    encoded = word.encode()
    if len(encoded) > _LONGEST:
        return xxh3_64_intdigest(encoded)
    found = np.array([len(encoded)], np.uint64)
    for at in range(0, max(len(encoded), 1), _BLOCK):
        block = int.from_bytes(encoded[at : at + _BLOCK], "little")
        found = mixed(found ^ np.uint64(block))
    return int(found[0])


def mixed(numbers: Hashes) -> Hashes:
    """Mix by the finaliser of splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def _hashes(cut: Cut) -> Hashes:
    """Hash words, a block of all of them at a time; a table of distinct words costs twice as much."""
    starts, sizes = cut.starts, cut.ends - cut.starts
    text = np.concatenate([cut.octets, np.zeros(_BLOCK, np.uint8)])
    blocks = np.ndarray(len(text) - _BLOCK + 1, "<u8", text, strides=(1,))  # the eight bytes from each byte on
    found = mixed(sizes.astype(np.uint64) ^ (blocks[starts] & _MASKS.take(np.minimum(sizes, _BLOCK))))
    for at in range(_BLOCK, _LONGEST, _BLOCK):
        live = np.flatnonzero(sizes > at)
        block = blocks[starts[live] + at] & _MASKS.take(np.minimum(sizes[live] - at, _BLOCK))
        found[live] = mixed(found[live] ^ block)
    longest = np.flatnonzero(sizes > _LONGEST)
    found[longest] = np.fromiter(map(xxh3_64_intdigest, _written(cut, longest)), np.uint64, len(longest))
    return found


def _ids(cut: Cut) -> Places:
    """Which words are ids; only what is long enough and has a digit in it is read."""
    digits = np.flatnonzero((cut.octets - np.uint8(ord("0"))) < 10)
    near = np.searchsorted(cut.starts, digits, "right") - 1
    may_be = np.unique(near[cut.ends[near] - cut.starts[near] >= _SHORTEST_ID]) if len(cut.starts) else near
    written = pl.Series(_written(cut, may_be), dtype=pl.Binary).cast(pl.String)
    found: Places = may_be[pl.select(_is_id(pl.lit(written))).to_series().to_numpy()]
    return found


def _written(cut: Cut, words: Places) -> list[bytes]:
    bounds = zip(cut.starts[words].tolist(), cut.ends[words].tolist(), strict=True)
    return [cut.octets[start:end].tobytes() for start, end in bounds]


def _is_id(word: pl.Expr) -> pl.Expr:
    """Tell an id by the word alone.

    It is hexadecimal and not all letters (`defaced` is a word), or letters and digits change places three times in it,
    as in base64 and session numbers.
    """
    length = word.str.len_bytes()
    hexadecimal = (length >= _SHORTEST_ID) & word.str.contains("^[0-9a-f]*[0-9][0-9a-f]*$")
    mixed = (length >= _SHORTEST_MIXED_ID) & word.str.contains("^[a-z]*(?:[0-9]+[a-z]+){3,}[0-9]*$")
    return hexadecimal | mixed
