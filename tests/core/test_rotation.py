"""What comes and goes on a host's pages is noise once it did so twice; edits and notices are not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core import rotation, templates
from crawl_pipeline.core.rotation import MOST, Rotation

NONE = np.empty(0, np.uint32)
TEXT, AD, OTHER, NOTICE = [1, 2, 3], 10, 11, 12


def noise(*readings, known=None):
    known = known or Rotation.none()
    known.add(readings, pages=100)
    return known.noise().tolist()


def test_what_has_come_twice_and_gone_twice_rotates_on_one_page_or_on_several():
    one_page = [([*TEXT, AD], TEXT), (TEXT, [*TEXT, AD])] * 2
    pages = [([1, AD], [1, OTHER]), ([2, AD], [2, OTHER]), ([3, OTHER], [3, AD]), ([4, OTHER], [4, AD])]

    assert noise(*one_page) == [AD]
    assert noise(*pages) == [AD, OTHER]
    assert noise(*one_page[:3]) == []


def test_an_edit_and_a_notice_that_leaves_all_pages_at_once_are_no_noise():
    assert noise((TEXT, [1, 2, 4]), ([1, 2, 4], [1, 2, 5])) == []
    assert noise(*[([n, NOTICE], [n]) for n in range(50, 80)]) == []


def test_a_notice_that_mostly_stays_where_it_is_is_no_noise():
    days = [(TEXT, [*TEXT, NOTICE]), *[([*TEXT, NOTICE], [*TEXT, NOTICE])] * 9, ([*TEXT, NOTICE], TEXT)]

    assert noise(*days * 3) == []


def test_readings_are_equal_if_they_differ_in_noise_or_template_alone_and_in_order():
    rotates, template = np.array([AD, OTHER], np.uint32), np.array([9], np.uint32)

    assert rotation.equal([1, AD, 2, 3], [1, 2, OTHER, 3], NONE, rotates)
    assert rotation.equal([9, 1, AD], [1], template, rotates)
    assert not rotation.equal([1, AD, 2], [2, OTHER, 1], NONE, rotates)
    assert not rotation.equal([1, AD], [4, AD], NONE, rotates)
    assert not rotation.equal([AD], [OTHER], NONE, rotates), "nothing is left to compare"


def test_long_blocks_are_followed_and_removed_ones_are_not():
    text = "\n".join(["menu", "short", "x" * 300])
    blocks = templates.hashes(text)

    assert rotation.sequence(text, blocks, [1]) == [
        templates.line_hash("short"), templates.line_hash("x" * 300)
    ]  # fmt: skip
    many = "\n".join(map(str, range(rotation.FOLLOWED + 1)))
    assert rotation.sequence(many, templates.hashes(many), []) is None


@given(st.lists(st.tuples(st.lists(st.integers(1, 30)), st.lists(st.integers(1, 30))), max_size=40))
def test_what_is_known_survives_being_stored(readings):
    known = Rotation.none()
    known.add(readings, pages=7)

    assert rotation.from_row(rotation.row(known)).moves == known.moves
    assert rotation.unpacked(rotation.packed([3, 1, 2**32 - 1])) == [3, 1, 2**32 - 1]


def test_of_a_host_few_blocks_are_kept_and_those_that_rotate_stay():
    known = Rotation.none()
    assert noise(([*TEXT, AD], TEXT), (TEXT, [*TEXT, AD]), ([*TEXT, AD], TEXT), (TEXT, [*TEXT, AD]), known=known) == [
        AD
    ]
    for n in range(1_000, 9_000, 4):
        known.add([([n, n + 1], [n + 2, n + 3])], pages=100)

    assert len(known.moves) <= MOST
    assert known.noise().tolist() == [AD]
    assert not len(known.noise(at=99))
    many = list(range(20_000, 20_000 + 2 * MOST))
    known.add([(many, []), ([], many)] * 4, pages=200)
    assert len(known.moves) == MOST
    assert AD in known.noise(), "what rotates does not make room for what came to rotate after it"
