"""What a module gives is checked where it is called: rows of its table, or the reason why there are none."""

import pytest

from crawl_pipeline.modules import Content, Limits
from crawl_pipeline.modules.calling import MOST_CHARACTERS, Told, prepare, read, read_all
from crawl_pipeline.modules.loading import Spec
from tests.modules.hurtful import SECONDS, declares

SPEC = Spec("hurtful", "tests.modules.hurtful:Hurtful")
LIMITS = declares("hurt").limits


def page(path: str, text: str = "words") -> Content:
    return Content(f"http://a.test/{path}", "text/html", b"<p>", b"", text, "A title")


def told(path: str) -> Told:
    return read(page(path), SPEC, LIMITS)


def test_rows_have_the_types_that_were_declared():
    assert told("good").rows.rows(named=True) == [{"title": "A title", "letters": 5}]


@pytest.mark.parametrize(
    ("deed", "reason"),
    [
        ("raises", "LookupError: no such thing"),
        ("leaves", "SystemExit: 3"),
        ("mumbles", "Unspeakable"),
        ("says-a-number", "expected rows, found int"),
        ("says-text", "expected rows, found str"),
        ("says-words", "expected rows that map columns to values, found str"),
        ("says-another-column", "expected rows of the columns ['letters', 'title'], found ['colour']"),
        ("says-a-frame-of-another-shape", "expected rows of the columns ['title', 'letters'], found ['colour'] too"),
        ("says-another-type", "expected Int64 in the column letters, found another type"),
        ("says-what-cannot-be-sent", "expected Int64 in the column letters, found another type"),
        ("says-too-much", "its rows have 2"),
    ],
)
def test_what_is_no_row_of_its_table_is_told_as_a_reason(deed, reason):
    found = told(deed)

    assert found.rows is None
    assert found.failure.startswith(reason)
    assert len(found.failure) <= MOST_CHARACTERS + 3


def test_a_body_over_the_limit_is_not_handed_over():
    found = read(page("good"), SPEC, Limits(body_bytes=2))

    assert found.failure == "the body has 3 bytes, over its limit of 2"


def test_a_module_that_does_not_load_where_it_is_called_is_told_as_a_reason():
    found = read(page("good"), Spec("absent", "tests.modules.hurtful:NeedsWhatIsMissing"), LIMITS)

    assert "no_such_package" in found.failure


def test_one_that_takes_too_long_is_stopped_and_the_next_one_is_called():
    prepare([SPEC])
    contents = [page("sleeps"), page("busy"), page("good")]
    found: list[Told] = []

    while len(found) < len(contents):
        found += read_all(contents[len(found) :], SPEC, LIMITS)

    assert [one.failure for one in found] == [f"not done within {SECONDS:g} s"] * 2 + [None]


def test_what_needs_too_much_memory_is_told_and_the_next_one_is_left_to_another_process():
    prepare([SPEC])

    (found,) = read_all([page("eats-memory"), page("good")], SPEC, Limits(memory_bytes=300_000_000))

    assert found.spent
    assert found.failure == "it took over 300000000 bytes of memory"
