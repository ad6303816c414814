"""The cost model multiplies what was measured, and nothing else; every constant says where it comes from."""

import importlib.util
import re
from datetime import date

import pytest

from docs import scale
from docs.scale import TARGETS, Cost

OF = {name: float(one["value"]) for name, one in scale.constants().items()}


def test_every_constant_has_a_value_and_names_the_bench_that_measured_it_and_the_day():
    for name, one in scale.constants().items():
        module = re.search(r"python -m (bench\.\w+)", one["command"])
        assert module, name
        assert importlib.util.find_spec(module[1]), name
        assert one["value"] > 0, name
        assert isinstance(one["on"], date), name
        assert one["unit"], name
        assert one["says"], name


def test_every_constant_is_used_and_shown():
    page, source = scale.page(), (scale.MEASURED.parent.parent / "docs" / "scale.py").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in OF)
    reckoned = set(re.findall(r'of\["(\w+)"\]', source)) | set(re.findall(r"of\['(\w+)'\]", source))
    assert set(OF) - reckoned <= {"written_per_change_bytes", "select_s"}  # shown, for planning by hand


def test_a_page_of_another_constant_is_another_page(tmp_path, monkeypatch):
    text = scale.MEASURED.read_text(encoding="utf-8")
    (tmp_path / "other.toml").write_text(re.sub(r"value = .*", "value = 93.8", text, count=1), encoding="utf-8")
    before = scale.page()
    found = scale.constants(tmp_path / "other.toml")
    monkeypatch.setattr(scale, "constants", lambda: found)

    assert scale.page() != before


def test_the_sums_are_those_one_does_by_hand():
    of = {"frontier_bytes": 50.0, "change_frequency_bytes": 40.0, "page_metadata_bytes": 100.0, "seen_bits": 9.6,
          "page_body_bytes": 10_000.0, "page_text_bytes": 5_000.0, "pages_per_cpu_s": 100.0,
          "links_per_page": 50.0, "links_per_cpu_s": 100_000.0, "fold_s": 3.0}  # fmt: skip
    one = Cost(TARGETS[2], of)

    assert one.state_bytes == 50e9 * 50 + 10e9 * 40
    assert one.metadata_per_url == pytest.approx((2.9e12 + 1e12) / 50e9)
    assert one.seen_bytes == 60e9
    assert one.content_bytes == 150e12
    assert one.pages_per_s == pytest.approx(385.8, abs=0.1)
    assert one.cores == pytest.approx(385.8 / 100 + 385.8 * 50 / 100_000, abs=0.01)
    assert one.workers == 5
    assert one.buckets == 1_024
    assert one.rebucket_s == 2 * 50_000 * 3


@pytest.mark.parametrize(
    ("value", "text"), [(999, "999 B"), (1.5e6, "1.5 MB"), (60e9, "60 GB"), (2.35e12, "2.35 TB"), (3e16, "30 PB")]
)
def test_sizes_are_told_with_few_digits(value, text):
    assert scale.size(value) == text
