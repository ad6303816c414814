"""Words are found by bytes as the regular expressions' engine finds them."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import cutting

RUNS, SINGLES = r"\w--[\p{Han}\p{Thai}]", r"\p{Han}\p{Thai}"
# One, two, three and four bytes, of each class: letters, marks, signs, Han and Thai.
SOME = st.text(alphabet="aZ_9 .-éßあ\u0301§。中ไ๏\u2028𐍈𠀀😀\x00\x7f\x80", max_size=20)


@given(st.lists(st.one_of(SOME, st.text(max_size=8)), min_size=1, max_size=6))
def test_the_words_are_those_that_the_engine_finds_and_none_goes_over_the_end_of_a_text(texts: list[str]) -> None:
    series = pl.Series(texts)
    cut = cutting.cut(series, RUNS, SINGLES)
    found = [bytes(cut.octets[start:end]).decode() for start, end in zip(cut.starts, cut.ends, strict=True)]
    listed = series.str.extract_all(f"[{RUNS}]+|[{SINGLES}]").to_list()
    assert found == [word for words in listed for word in words]
    assert cut.counts.tolist() == [len(words) for words in listed]
