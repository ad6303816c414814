"""What a site prefers as to the use of its pages is read to the letter, and what cannot be read is no preference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import robots, usage
from crawl_pipeline.core.usage import forbids_training, in_header, stated, together, written

LABELS = st.sampled_from(["train-ai", "ai-use", "search", "*", "x_1.y"])
PREFERENCES = st.dictionaries(LABELS, st.booleans())
# Pieces that dictionaries are made of, well put together or not.
PIECES = st.sampled_from(
    ["train-ai", "search", "=", "y", "n", ",", " ", ";", "(", ")", '"', "\\", "?1", ":", "1.5", "@", "é"]
)


def preferred(text: str, path: str) -> str | None:
    rules = robots.read(text.encode(), "ExampleBot")
    return written(rules.preferences(f"https://h.example{path}"))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("train-ai=n", {"train-ai": False}),
        (" train-ai=y ,\tsearch=n ", {"train-ai": True, "search": False}),
        ("train-ai;allow=n, train-ai=y", {"train-ai": True}),
        ('search=y;why="no, \\"never\\"", other=(a b;c=1 "d"), at=@1700000000, x=%"%c3", z=:YQ==:', {"search": True}),
        ('train-ai=y, train-ai, search=n, search="n"', {}),
        ("future=n, train-ai=maybe, n=?0, m=1.5", {"future": False}),
        ("", {}),
    ],
)  # fmt: skip
def test_a_statement_is_read_as_the_drafts_say(text, found):
    assert stated(text) == found


@pytest.mark.parametrize(
    "text",
    ["train-ai=n,", ",train-ai=n", "Train-AI=n", "train-ai=n search=n", "train-ai = n", "train-ai=n; =1", "a=n, x=(",
     'train-ai=n, x="', "train-ai=n, x=1.2345", "train-ai=n, x=é", "a=n, " * 1000 + "train-ai=n"],
)  # fmt: skip
def test_one_error_and_nothing_is_said(text):
    assert stated(text) == {}


@given(st.lists(PIECES, max_size=40).map("".join) | st.text(max_size=60))
def test_no_text_is_too_strange_to_read(text):
    found = stated(text)
    assert stated(written(found) or "") == found
    assert robots.read(f"User-agent: *\nContent-Usage: {text}\nDisallow: /x\n".encode(), "ExampleBot")


@given(PREFERENCES)
def test_what_is_written_down_reads_as_it_was_meant(preferences):
    assert stated(written(preferences) or "") == preferences
    assert forbids_training(written(preferences)) == (preferences.get("train-ai") is False)


@given(st.lists(PREFERENCES, max_size=4), st.randoms())
def test_of_several_statements_every_no_counts_and_every_yes_that_nobody_denies(statements, chance):
    result = together(*statements)
    for label in {label for statement in statements for label in statement}:
        assert result[label] == all(statement.get(label) is not False for statement in statements)
    assert result.keys() == {label for statement in statements for label in statement}
    chance.shuffle(statements)
    assert together(*statements) == together(result, result) == result


@given(PREFERENCES, st.integers(0, 5))
def test_several_fields_are_one_in_parts(preferences, cut):
    parts = [f"{label}={'y' if said else 'n'}" for label, said in preferences.items()]
    fields = [", ".join(some) for some in (parts[:cut], parts[cut:]) if some]
    assert in_header(fields) == preferences


def test_an_answer_without_the_field_says_nothing():
    assert in_header(()) == {}
    assert written({}) is None
    assert not forbids_training(None)


EXAMPLE = """User-Agent: *
Allow: /
Disallow: /never/
Content-Usage: train-ai=n
content-usage : /ai-ok/ \t train-ai=y # welcome

User-Agent: OtherBot
Allow: /
Content-Usage: / train-ai=y
"""


@pytest.mark.parametrize(
    ("path", "found"), [("/test", "train-ai=n"), ("/ai-ok/test", "train-ai=y"), ("/ai-ok", "train-ai=n")]
)
def test_the_longest_path_of_our_group_decides(path, found):
    assert preferred(EXAMPLE, path) == found
    assert written(robots.read(EXAMPLE.encode(), "OtherBot").preferences(f"https://h.example{path}")) == "train-ai=y"
    assert not robots.read(EXAMPLE.encode(), "ExampleBot").allowed("https://h.example/never/test")


def test_lines_for_one_path_that_contradict_each_other_count_separately():
    lines = "Content-Usage: /a train-ai=y, search=y\nContent-Usage: /a train-ai=n\nContent-Usage: / ai-use=n\n"
    assert preferred(f"User-agent: *\n{lines}", "/a/b") == "search=y, train-ai=n"
    assert preferred(f"User-agent: *\n{lines}", "/b") == "ai-use=n"


@pytest.mark.parametrize(
    "line", ["/a train-ai", "/a train-ai=n,", "/a", "*.pdf train-ai=n", "a train-ai=n", "/a\xa0train-ai=n"]
)
def test_a_line_that_states_nothing_hides_no_other(line):
    assert preferred(f"User-agent: *\nContent-Usage: {line}\nContent-Usage: search=n\n", "/a/b.pdf") == "search=n"


def test_paths_are_compared_in_one_spelling_and_may_have_wildcards():
    lines = "Content-Usage: /%7Ea/*.html$ train-ai=n\n"
    assert preferred(f"User-agent: *\n{lines}", "/~a/b.html") == "train-ai=n"
    assert preferred(f"User-agent: *\n{lines}", "/~a/b.html?c") is None


def test_each_agent_has_the_preferences_that_follow_it_and_no_group_ends_with_them():
    text = "User-agent: ExampleBot\nContent-Usage: train-ai=n\nUser-agent: B\nContent-Usage: search=n\nDisallow: /p\n"
    assert preferred(text, "/") == "train-ai=n"
    assert not robots.read(text.encode(), "ExampleBot").allowed("https://h.example/p")
    several = "User-agent: ExampleBot\nUser-agent: B\nCrawl-delay: 3\nContent-Usage: train-ai=n\nDisallow: /p\n"
    assert preferred(several, "/") == written(robots.read(several.encode(), "B").preferences("https://h.example/"))


def test_rules_of_the_same_weight_speak_together():
    [wild], [plain] = usage.rule_of(b"/a* train-ai=y"), usage.rule_of(b"/ab train-ai=n")
    assert usage.by_rules([wild, plain], "/abc") == {"train-ai": False}
