"""The lake: every table of the crawl in Delta, who may write which bucket, and what a reader may see.

The only package that knows Delta, its errors and its concurrency. It never decides what to fetch or when.

Four ideas carry it; each has its module.

**A lease is a compare-and-set; its epoch fences late writers** (`leases`). A holder takes buckets by overwriting
their rows of `leases` with the same table object it read them from: if anybody else moved one of those buckets in
between, Delta refuses the commit. Then, before it reads any state, it commits the new epoch of each bucket to
`rounds`. From that moment a former holder who wakes up late cannot commit: it finds a larger epoch, or collides
with it.

**A round exists once its row stands in `rounds`** (`visible`). Data is written first, in any order and in any
table, under the round's number, which is unique; `Lake.commit` writes the row in `rounds` last. Readers drop rows
of rounds that are not there. So a crash at any point leaves nothing to undo, and a repeated write replaces itself.

**State is a base and a tail** (`folding`). A round writes only the rows it changed, as tail rows; the newest
committed row of a key wins. When a bucket's tail has grown, a fold merges it into the base. Base rows have been
committed before they were folded, so readers need not ask `rounds` about them.

**A layout is a number on every row of state** (`layouts`). Which one is read, and how many buckets there are, is
stamped on `rounds`; `moving` writes all rows anew for another count, then changes both in one commit.

**What is derived from all buckets has one writer at a time** (`deriving`): a clustering commits its rows, its number
and how far it read the logs of each bucket in one commit, made from the version in which it found the number before.

`writing` checks and replaces the rows of a round; `tidying` merges small files of logs; `sweeping` deletes rows that
nobody sees: of rounds that never came to be, of layouts that are past; `past` finds the versions that show the
lake as an old round found it. `delta`, beneath them all, opens tables, checks their schemas and repeats a commit that
collided.
"""

from crawl_pipeline.lake.delta import (
    WEEK,
    LakeBusy,
    LakeMismatch,
    LakeMissing,
    LakeUnwritable,
    RetentionTooShort,
    check_retention,
)
from crawl_pipeline.lake.deriving import Clustered
from crawl_pipeline.lake.lake import Lake, LakeExists, Size, check_count
from crawl_pipeline.lake.leases import Lease, LeaseHeld, LeaseLost
from crawl_pipeline.lake.moving import Move
from crawl_pipeline.lake.numbered import Overtaken
from crawl_pipeline.lake.past import TooLongAgo

__all__ = [
    "WEEK", "Clustered", "Lake", "LakeBusy", "LakeExists", "LakeMismatch", "LakeMissing", "LakeUnwritable", "Lease",
    "LeaseHeld", "LeaseLost", "Move", "Overtaken", "RetentionTooShort", "Size", "TooLongAgo", "check_count",
    "check_retention",
]  # fmt: skip
