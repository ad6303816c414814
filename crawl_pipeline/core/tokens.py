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
import pyarrow.compute as pc
from xxhash import xxh3_64_intdigest

Hashes = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

DATE, TIME, ID = "0date", "0time", "0id"
"""What stands for a masked date, time or id. No text gives these by chance, and it would do no harm."""

_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = rf"[\w--[{_UNSPACED}]]+|[{_UNSPACED}]"
# English, German, French, Spanish. Longer names first: the first alternative that fits is taken.
_MONTHS = (
    "january jan januar janvier enero february feb februar février fevrier febrero march mar märz mars marzo april apr"
    " avril abril may mai mayo june jun juni juin junio july jul juli juillet julio august aug août aout agosto"
    " september sept sep septembre septiembre october oct oktober okt octobre octubre november nov novembre noviembre"
    " december dec dezember dez décembre decembre diciembre"
)
_MONTH = f"(?:{'|'.join(sorted(set(_MONTHS.split()), key=lambda name: (-len(name), name)))})"
_WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?,?\s+)?"
_DAY, _YEAR = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?", r"(?:19|20)[0-9]{2}"
_CLOCK = r"[0-2]?[0-9]:[0-5][0-9](?::[0-6][0-9])?(?:[.,][0-9]+)?"
_ZONE = r"(?:\s?(?:[ap]\.?m\b|utc\b|gmt\b|z\b|[+-][0-9]{2}:?[0-9]{2}))*"
# ASCII word boundaries: with Unicode ones the engine leaves its fast path for every text that is not ASCII.
_EDGE = r"(?-u:\b)"
_DATES = "|".join(
    [
        rf"{_EDGE}{_YEAR}[-/.](?:0?[1-9]|1[0-2])[-/.]{_DAY}(?:[t ]{_CLOCK}{_ZONE})?{_EDGE}",
        rf"{_EDGE}(?:[0-3]?[0-9])[-/.][0-3]?[0-9][-/.]{_YEAR}{_EDGE}",
        rf"{_EDGE}{_WEEKDAY}{_DAY}\.?\s+(?:of\s+|de\s+)?{_MONTH}\.?(?:,?\s+(?:de\s+)?{_YEAR})?{_EDGE}",
        rf"{_EDGE}{_WEEKDAY}{_MONTH}\.?\s+(?:{_DAY}(?:,?\s+{_YEAR})?|{_YEAR}){_EDGE}",
        rf"{_YEAR}年[0-9]{{1,2}}月(?:[0-9]{{1,2}}日)?",
        rf"{_EDGE}[0-9]+\s+(?:second|minute|hour|day|week|month|year)s?\s+ago{_EDGE}",
    ]
)
_TIMES = rf"{_EDGE}{_CLOCK}{_ZONE}"
_UUIDS = rf"{_EDGE}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{_EDGE}"
# Of a word alone: eight or more hexadecimal digits, not letters only (a word such as `defaced`); twelve or more
# letters and digits that change places three times, as in base64 and session numbers.
_ID_WORD = r"^(?:[0-9a-f]{8,}|[a-z]*(?:[0-9]+[a-z]+){3,}[0-9]*)$"


@dataclass(frozen=True, slots=True)
class Words:
    """Hashes of the words of many texts, one text after the other, and how many each text has."""

    hashes: Hashes
    counts: Counts


def masked(texts: pl.Series) -> pl.Series:
    """Bring texts to the form that is cut into words."""
    ascii_only = texts.str.len_bytes() == texts.str.len_chars()
    if not ascii_only.all():  # NFKC changes no ASCII, and costs as much as everything else here
        texts = pl.select(pl.when(ascii_only).then(texts).otherwise(texts.str.normalize("NFKC"))).to_series()
    lower = texts.str.to_lowercase()
    return lower.str.replace_all(_UUIDS, ID).str.replace_all(_DATES, DATE).str.replace_all(_TIMES, TIME)


def words(texts: pl.Series) -> pl.Series:
    """List the words of each text, masked ones as what stands for them; of an empty text or null, none."""
    found = masked(texts.fill_null("")).str.extract_all(_WORD)
    return found.list.eval(_without_ids(pl.element()))


def hashed(texts: pl.Series) -> Words:
    """Hash every word of every text: the hashes of `words`."""
    return numbered(masked(texts.fill_null("")).str.extract_all(_WORD))


def numbered(lists: pl.Series) -> Words:
    """Hash every word of lists of words, ids masked; none of the lists is null."""
    counts = lists.list.len().to_numpy().astype(np.int64)
    coded = pc.dictionary_encode(lists.explode(empty_as_null=False, keep_nulls=False).to_arrow())
    vocabulary = pl.Series("word", coded.dictionary, dtype=pl.String)
    plain = pl.select(_without_ids(vocabulary)).to_series()
    numbers = np.fromiter(map(word_hash, plain.to_list()), np.uint64, len(plain))
    return Words(numbers[coded.indices.to_numpy()], counts)


def word_hash(word: str) -> int:
    """Give the 64-bit XXH3 of a word in UTF-8, seed 0; stored fingerprints depend on it, so it never changes."""
    return xxh3_64_intdigest(word.encode())


def _without_ids(word: pl.Expr | pl.Series) -> pl.Expr:
    given = pl.lit(word) if isinstance(word, pl.Series) else word
    long_ = given.str.len_bytes() >= 8
    is_id = long_ & given.str.contains(r"[0-9]") & given.str.contains(_ID_WORD)
    short = given.str.len_bytes() < 12
    return pl.when(is_id & (~short | given.str.contains(r"^[0-9a-f]+$"))).then(pl.lit(ID)).otherwise(given)
