"""Two processes want the same buckets: at any time one of them has each, whoever stalls, vanishes or is killed."""

from pathlib import Path

from tests.effort import long
from tests.live.fights import let_fight


@long
def test_of_two_processes_that_fight_for_the_same_buckets_one_has_each_at_a_time(tmp_path: Path) -> None:
    verdict = let_fight(str(tmp_path / "lake"), seconds=15, kills=3)

    assert verdict.wrong == ()
    assert verdict.holders >= 2
    assert verdict.takeovers >= 3
    assert verdict.counts >= 10
