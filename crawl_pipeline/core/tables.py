"""Every table of the lake: its columns, types, units, meaning and key.

This is the one home of these facts. Delta creation, asset specs, docs/tables.md, DuckDB views and the checks of
frames before a write are all derived from it. A column name means the same thing in every table that has it, so it
is described once, in COLUMNS; a table lists names.

Delta has no unsigned types, so 64-bit hashes are signed. Times are UTC with microseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import polars as pl

TIME = pl.Datetime("us", "UTC")
TALLY = pl.List(pl.Struct({"name": pl.String, "count": pl.Int64}))
ROBOTS_STATE = pl.List(pl.Struct({"origin": pl.String, "robots_id": pl.Int64, "state": pl.String, "expires_at": TIME}))
DATES = pl.Struct(dict.fromkeys(("changed", "told", "moved", "foretold"), pl.Float32))
SEGMENTS = pl.List(pl.Struct({"place": pl.Int8, "segment": pl.String, "count": pl.Int64, "literal": pl.Boolean}))

Kind = Literal["log", "state", "derived", "ledger", "control"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its Polars type, its unit ("" for none) and what it means."""

    name: str
    dtype: pl.DataType
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table: what kind it is, what one row is, and the columns that identify a row."""

    name: str
    kind: Kind
    key: tuple[str, ...]
    partitioned_by: tuple[str, ...]
    sorted_by: tuple[str, ...]
    one_row_is: str
    column_names: tuple[str, ...]
    own: tuple[Column, ...] = ()
    """Columns that no other table has: of tables that modules write."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The table's columns in order."""
        described = COLUMNS | {column.name: column for column in self.own}
        return tuple(described[name] for name in self.column_names)

    @property
    def schema(self) -> pl.Schema:
        """The full declared schema: every write carries exactly this."""
        return _schema(self.column_names, self.own)

    def empty(self) -> pl.DataFrame:
        """A frame of this table without rows."""
        return pl.DataFrame(schema=self.schema)

    def frame(self, rows: Sequence[dict[str, object]] | pl.DataFrame) -> pl.DataFrame:
        """Give rows the declared columns, order and types; absent columns become null, unknown ones are refused."""
        given = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame(rows, schema=self._given_schema(rows))
        unknown = [name for name in given.columns if name not in self.schema]
        if unknown:
            raise ValueError(f"{self.name} has the columns {list(self.schema)}, but the rows also bring {unknown}")
        if given.schema == self.schema:
            return given
        absent = [pl.lit(None).alias(name) for name in self.schema if name not in given.columns]
        columns = [pl.col(name).cast(dtype) for name, dtype in self.schema.items()]
        return given.lazy().with_columns(absent).select(columns).collect()

    def _given_schema(self, rows: Sequence[dict[str, object]]) -> dict[str, pl.DataType]:
        names = dict.fromkeys(name for row in rows for name in row)
        return {name: self.schema[name] if name in self.schema else pl.Object() for name in names}


@cache
def _schema(names: tuple[str, ...], own: tuple[Column, ...]) -> pl.Schema:
    types = {column.name: column.dtype for column in (*COLUMNS.values(), *own)}
    return pl.Schema([(name, types[name]) for name in names])


def _columns(*columns: tuple[str, pl.DataType | type[pl.DataType], str, str]) -> dict[str, Column]:
    return {name: Column(name, dtype() if isinstance(dtype, type) else dtype, unit, text)
            for name, dtype, unit, text in columns}  # fmt: skip


COLUMNS = _columns(
    # Where a row belongs.
    ("bucket", pl.Int16, "", "host bucket: hash64(site) mod the lake's bucket count"),
    ("round", pl.Int64, "", "the round that wrote the row, which exists once that is in `rounds`; grows, with gaps"),
    ("layer", pl.String, "", "`base`: snapshot written by a fold; `tail`: rows changed since, of which the newest win"),
    ("layout", pl.Int64, "", "0, or the round of the rebucketing that laid the row out; readers see the last one"),
    ("part", pl.Int16, "", "slice of a bucket's base: 0 for most hosts; the URLs of a large host are cut, in order, "
                           "into slices 1, 2, ... of some hundred thousand"),
    ("month", pl.String, "", "UTC month of the fetch, YYYY-MM; the unit of retention"),
    ("source_bucket", pl.Int16, "", "bucket whose round found the link"),
    ("target_bucket", pl.Int16, "", "bucket the URL belongs to; its owner admits the link"),
    ("worker", pl.String, "", "who ran the round: host name, process id and a random suffix"),
    # URLs.
    ("url", pl.String, "", "canonical URL"),
    ("url_hash", pl.Int64, "", "hash64 of the canonical URL"),
    ("host", pl.String, "", "host name of the URL, without port; the unit of politeness"),
    ("site", pl.String, "", "registrable domain of the host (public suffix list, private section on)"),
    ("origin", pl.String, "", "scheme, host and port; the scope of one robots.txt"),
    ("source_url", pl.String, "", "canonical URL of the page that held the link; null for a seed"),
    ("source_hash", pl.Int64, "", "hash64 of source_url"),
    ("kind", pl.String, "", "how it came: seed, link, redirect, canonical, sitemap (a file), listed (in one); probe "
                            "(a URL that nobody can have made, see core/not_found); for modules image (a picture in a "
                            "page) and file (its ending is one that they want); in "
                            "`orders` what is asked: seed, policy, pause, resume, set, unset, recrawl, forget, "
                            "release"),
    ("nofollow", pl.Boolean, "", "the link or its page said nofollow"),
    ("depth", pl.Int16, "links", "links between the seed and this URL; redirects do not count"),
    ("hops", pl.Int16, "redirects", "redirects in a row that led here"),
    ("tag", pl.String, "", "name of the seed list that led here"),
    ("lastmod_at", TIME, "UTC", "what the sitemap says of the last change, in `frontier` what it said last; a hint, "
                                "not a fact"),
    ("said_rate", pl.Float32, "per day", "how often the page changes by the sitemap's changefreq"),
    # Requests.
    ("request_id", pl.Int64, "", "hash64 of worker, start and URL; identifies one request"),
    ("cause", pl.String, "", "why it was sent: page, sitemap, robots, probe (to see what is answered)"),
    ("started_at", TIME, "UTC", "when the request, or the round, started"),
    ("ended_at", TIME, "UTC", "when the last byte was read or it was given up; end of the round's fetching"),
    ("first_byte_s", pl.Float64, "s", "from the start to the first byte of the answer"),
    ("address", pl.String, "", "IP address that was connected to"),
    ("user_agent", pl.String, "", "User-Agent that was sent"),
    ("status", pl.String, "", "frontier state of the URL: see docs/words.md"),
    ("http_status", pl.Int16, "", "status code of the answer; null if there was none"),
    ("outcome", pl.String, "", "what the fetch came to: see the outcome table in docs/architecture.md"),
    ("reason", pl.String, "", "why, in words, where the outcome alone does not say it"),
    ("content_type", pl.String, "", "media type as answered"),
    ("wire_bytes", pl.Int64, "bytes", "body bytes received, before content decoding"),
    ("body_bytes", pl.Int64, "bytes", "body size after content decoding"),
    ("etag", pl.String, "", "validator of the answer, sent back as If-None-Match"),
    ("last_modified", pl.String, "", "validator of the answer, sent back as If-Modified-Since"),
    ("retry_after_s", pl.Float64, "s", "wait the host asked for, in seconds from the end of the request"),
    ("location", pl.String, "", "canonical target of a redirect"),
    ("gap_s", pl.Float64, "s", "wait promised to the host after this request, from its end to the next start"),
    ("robots_id", pl.Int64, "", "the robots.txt answer in force"),
    ("policy_id", pl.String, "", "digest of the policy in force"),
    # Stored pages.
    ("fetched_at", TIME, "UTC", "when the (last) fetch ended"),
    ("charset", pl.String, "", "encoding the body was read with, by its standard name"),
    ("title", pl.String, "", "title of the page"),
    ("lang", pl.String, "", "language the page declares"),
    ("text", pl.String, "", "visible text, white space folded, a line per block"),
    ("text_hash", pl.Int64, "", "hash64 of the text as it was last read"),
    ("token_count", pl.Int32, "words", "words of the main text, which is the text without `removed_blocks`"),
    ("main_hash", pl.Int64, "", "hash of all words of the main text, masked; in `change_frequency` of the version that "
                                "later ones are compared with"),
    ("simhash", pl.Int64, "", "64 bits of the main text's shingles; near if they differ in few bits"),
    ("minhash", pl.Binary, "", "128 numbers of 32 bits, little endian, of the main text's shingles; null for under ten "
                               "words, and where only equality counts because nearly all would be removed"),
    ("removed_blocks", pl.List(pl.Int32), "", "lines of the text that are not main text, counted from 1: template of "
                                              "the host, navigation, advertising"),
    ("removed_share", pl.Float32, "", "share of the text's characters in such lines; over 0.9 nothing was removed"),
    ("noise_share", pl.Float32, "", "the same with lines that are hidden or that the page repeats"),
    ("soft404", pl.Boolean, "", "the page is what its host shows for URLs that do not exist: see core/not_found"),
    ("thin", pl.Boolean, "", "fewer than ten words of main text: too little to compare"),
    ("main_sketch", pl.Binary, "", "two bits of each number of the MinHash of that version"),
    ("template_count", pl.Int64, "pages", "pages of the host that were counted when that version was read: by the "
                                       "template of then it is compared"),
    ("main_blocks", pl.Binary, "", "hashes of the blocks of the main text that was read last, in their order, 4 bytes "
                                   "each; null: very many, or none read"),
    ("body_hash", pl.Binary, "", "BLAKE2b of the decoded body, 16 bytes: with the charset it names a content"),
    ("body", pl.Binary, "", "decoded body, as it came"),
    ("content_round", pl.Int64, "", "the round that stored the page's content: with body_hash and charset it finds the "
                                    "row of `contents`; an earlier one if the page is a copy; null: not kept"),
    ("link_count", pl.Int32, "links", "links found in the page"),
    ("word_count", pl.Int32, "words", "words of the text"),
    ("canonical_url", pl.String, "", "canonical URL the page declares for itself"),
    ("noindex", pl.Boolean, "", "the page asks not to be indexed; body and text are then not kept"),
    ("robots_directives", pl.String, "", "what robots meta elements and X-Robots-Tag say to us, known to us or not"),
    ("usage", pl.String, "", "uses that the site allows (y) or not (n), such as `train-ai=n`, by Content-Usage of the "
                             "answer and of robots.txt together; null: nothing is said"),
    # Modules.
    ("module", pl.String, "", "the module, as it is named in modules.use"),
    ("phase", pl.String, "", "when it was to be called: read (one answer), round (a round's rows), load (the worker's "
                             "start)"),
    ("table_name", pl.String, "", "name of the table"),
    ("one_row_is", pl.String, "", "what one row of it is"),
    ("declared", pl.String, "", "its columns as JSON: name, type, unit and meaning of each"),
    # Duplicates.
    ("clustering", pl.Int64, "", "the clustering that wrote the row: 1, 2, ...; the newest row of a page wins"),
    ("cluster_id", pl.Int64, "", "hash of the text that represents the cluster; null: the page is in none any more"),
    ("cluster_before", pl.Int64, "", "the cluster that the page, or the whole cluster, was in before; null: the same"),
    ("similarity", pl.Float32, "", "likeness, an estimated Jaccard index, of the text and the one that represents the "
                                      "cluster"),
    ("canonical", pl.String, "", "canonical page of the cluster, chosen by the crawl; null: it has no other page"),
    ("doubts", pl.Int16, "visits", "visits in a row that found a text unlike its cluster: it leaves after some"),
    ("misses", pl.Int16, "visits", "visits in a row that found no page: it leaves after some"),
    ("since_at", TIME, "UTC", "when the page came to have this canonical page, or none"),
    ("merged_at", TIME, "UTC", "when the cluster was joined to another"),
    # Orders.
    ("order", pl.Int64, "", "number of the commit that gave the order; larger is later"),
    ("ordered_at", TIME, "UTC", "when a person gave the order"),
    ("ordered_by", pl.String, "", "who gave it"),
    ("of_bucket", pl.Int16, "", "the bucket whose pages are meant, where neither a URL nor a host nor a site is named"),
    ("visited_before", TIME, "UTC", "of a recrawl of a bucket: only of pages last visited before then"),
    ("policy_toml", pl.String, "", "the whole policy, so that a past round can be explained"),
    ("policy_key", pl.String, "", "the key that is set or unset; with a host, a key of its own section"),
    ("policy_value", pl.String, "", "the value it is set to, as TOML"),
    ("request_key", pl.String, "", "the key of the request that brought the order: of one giver, one key is one order"),
    ("request_hash", pl.Int64, "", "hash64 of what that request asked"),
    ("topic", pl.String, "", "subject of the seed list of this tag"),
    ("region", pl.String, "", "where hosts of the seed list are; of a host, that of the list through which it was met"),
    # Erasure.
    ("erasure", pl.Int64, "", "number of the commit that recorded the erasure; larger is later"),
    ("erased_at", TIME, "UTC", "when the erasure ended"),
    ("until_at", TIME, "UTC", "rounds that ended before this may have lost rows of the table"),
    ("gone_count", pl.Int64, "rows", "rows that were deleted"),
    ("changed_count", pl.Int64, "rows", "rows of others that lost what named an erased page"),
    ("file_count", pl.Int64, "files", "files that were deleted, of the log too"),
    ("file_bytes", pl.Int64, "bytes", "bytes of these"),
    ("version", pl.Int64, "", "version of the table afterwards; earlier ones cannot be read any more"),
    ("searched_count", pl.Int64, "files", "files of the whole lake that were searched afterwards, every byte; null: "
                                          "no search"),
    ("searched_bytes", pl.Int64, "bytes", "bytes of these"),
    ("left_count", pl.Int64, "files", "of these, files that hold something erased, or that somebody may still be about "
                                      "to commit; nought is the proof"),
    ("mention_count", pl.Int64, "texts", "bodies, texts and titles of other pages that name an erased URL: left as "
                                         "they are"),
    # robots.txt.
    ("expires_at", TIME, "UTC", "until when the answer may be used"),
    ("state", pl.String, "", "what the answer means: rules, allow_all, disallow_all"),
    # Frontier.
    ("band", pl.Int8, "", "priority class, 1 is most urgent; in `orders` that at which pages of the seed list start"),
    ("score", pl.Float32, "", "priority within 0 and 1, from which the band is cut"),
    ("found_at", TIME, "UTC", "when the URL was admitted"),
    ("due_at", TIME, "UTC", "when the URL may next be selected; null: never by itself"),
    ("visited_at", TIME, "UTC", "when its last visit told something of it; null: never, or a visit is ordered"),
    ("moved_count", pl.Int16, "readings", "readings of sitemaps since its last visit that found lastmod_at moved"),
    ("attempts", pl.Int16, "fetches", "failed fetches in a row"),
    ("gone_count", pl.Int16, "fetches", "visits in a row that found no page: gone, or refused by the server"),
    # Hosts.
    ("seeded", pl.Boolean, "", "a seed named a URL of this host"),
    ("paused", pl.Boolean, "", "a person asked for no requests to this host"),
    ("next_allowed_at", TIME, "UTC", "when the host may next be asked; the promise, carried between rounds"),
    ("crawl_delay_s", pl.Float64, "s", "Crawl-delay of its robots.txt for our agent"),
    ("download_s", pl.Float64, "s", "duration of the last request"),
    ("backoff_s", pl.Float64, "s", "extra wait after trouble; doubles with it, halves with calm"),
    ("troubled_at", TIME, "UTC", "when the first of its failures in a row ended; null while it answers"),
    ("aside_s", pl.Float64, "s", "for how long the host was put aside after its last failure; 0: it was not"),
    ("calm_count", pl.Int16, "answers", "answers without trouble since the back-off last moved"),
    ("failures", pl.Int16, "requests", "requests in a row that counted against the host"),
    ("robots", ROBOTS_STATE, "", "per origin: the robots.txt answer in force and when it expires"),
    ("known_count", pl.Int64, "URLs", "frontier rows, of the host, of the pattern or in the bucket"),
    ("parked_count", pl.Int64, "URLs", "frontier rows that are parked, of the host or in the bucket"),
    ("fetched_count", pl.Int64, "URLs", "pages asked for in all"),
    ("day", pl.Date, "UTC", "the day that day_count counts"),
    ("day_count", pl.Int64, "requests", "pages asked for on that day"),
    ("addresses", pl.List(pl.String), "", "addresses the host was last reached at"),
    ("validators_checked", pl.Int32, "answers", "answers to visits without validators that would have been a 304"),
    ("validators_lied", pl.Int32, "answers", "of these, how many had another text than before"),
    ("sitemap_dates", DATES, "visits", "trials of its sitemaps' dates: visits that found a change, of these told of by "
                                       "a moved date; visits after a moved date, how many of these would have found a "
                                       "change anyway"),
    ("page_dates", DATES, "visits", "the same of the Last-Modified of its pages"),
    ("said_wrong_count", pl.Int64, "URLs", "its pages whose rate is a tenth of said_rate or less, or tenfold or more"),
    ("text_read_at", TIME, "UTC", "when the text was last read: later visits were answered 304"),
    ("listed_until_at", TIME, "UTC", "up to when the turns of URLs from sitemaps are given out"),
    ("linking_sites", pl.List(pl.Int64), "", "hash64 of other sites that link to the host, 32 at most; not kept for "
                                             "sites that a seed names"),
    ("linking_site_count", pl.Int64, "sites", "other sites that link to the host, counted over the whole graph by a "
                                              "ranking; in `hosts` kept where `linking_sites` is full"),
    ("texts", pl.List(pl.Int64), "", "the 32 smallest text hashes of its pages: from them follows how many there are; "
                                     "not kept for sites that a seed names"),
    # Ranks.
    ("ranking", pl.Int64, "", "number of the ranking; 1 is the first"),
    ("page_rank", pl.Float32, "", "PageRank in units of a page that no link counts for: see core/page_rank"),
    ("rank_sum", pl.Float64, "", "sum of the ranks of the host's known URLs"),
    ("cash", pl.Float32, "", "what the source hands to the URL of its rank: written once there was a ranking, for a "
                             "page's first visit"),
    ("source_host", pl.String, "", "host name of source_url"),
    ("host_link_count", pl.Int64, "links", "links from pages of one host to pages of the other"),
    ("linking_host_count", pl.Int64, "hosts", "other hosts that link to the host"),
    ("ranks_seen", pl.Int64, "", "version of `ranks` that the round was planned with; null: there was no ranking"),
    # Change frequency.
    ("visit_count", pl.Int32, "fetches", "fetches that told whether the page had changed"),
    ("change_count", pl.Int32, "fetches", "of these, how many found another main text"),
    ("cosmetic_count", pl.Int32, "fetches", "of these, how many found another text but the same main text, or nearly"),
    ("evidence_a", pl.Float32, "", "what visits add to the shape of the Gamma prior of its change rate"),
    ("evidence_b", pl.Float32, "days", "what visits add to its rate parameter; with the prior of the host that is the "
                                       "posterior"),
    ("rate", pl.Float64, "per day", "change rate, the mean of the posterior; null before a second visit"),
    ("change_expected", pl.Float32, "", "how likely its last visit was to find a change, as believed before it"),
    ("rate_sum", pl.Float64, "per day", "sum of the change rates of its pages: what their prior is made of"),
    ("rate_count", pl.Int64, "URLs", "pages that have a change rate"),
    ("changed_at", TIME, "UTC", "when a fetch last found another main text"),
    ("weight", pl.Float32, "", "share of the visits it would have if it stood alone: less than 1 for copies"),
    ("interval_s", pl.Float64, "s", "wait until the next fetch; the date itself is frontier.due_at"),
    # Patterns.
    ("pattern", pl.String, "", "URL pattern of a host: its paths, with a class such as {int} for each segment that is "
                               "no literal, and the sorted names of its parameters; `*`: all that are too many; "
                               "`?name`: all URLs with this parameter; `/folder/{made-up}`: URLs of a folder that do "
                               "not exist; of a recrawl of a bucket: what the URLs match, where `*` is any text"),
    ("grown_count", pl.Int64, "URLs", "URLs of the pattern first named by its own pages, or by those of patterns in "
                                      "doubt, since trap_score was last not above 0"),
    ("shape", pl.String, "", "the pattern without its literals"),
    ("trial_count", pl.Int64, "pages", "pages of the pattern that were judged, each at its first visit; of a "
                                       "parameter: pairs of pages whose URLs differ in it alone"),
    ("exact_count", pl.Int64, "pages", "of these, with the same main text as an earlier page of the host, or equal"),
    ("near_count", pl.Int64, "pages", "of these, near-duplicates of an earlier page of the host"),
    ("thin_count", pl.Int64, "pages", "of these, with next to no text"),
    ("soft404_count", pl.Int64, "pages", "of these, the host's way to say not found"),
    ("failed_count", pl.Int64, "pages", "of these, URLs whose answer began, and came too slowly, too long or wrongly"),
    ("out_link_count", pl.Int64, "links", "links of these pages"),
    ("own_link_count", pl.Int64, "links", "of these, to URLs of the same pattern"),
    ("step_link_count", pl.Int64, "links", "of these, to URLs that differ from the page's own by numbers only"),
    ("new_url_count", pl.Int64, "URLs", "URLs of the host that became known through pages of the pattern"),
    ("linked_from", pl.List(pl.Int64), "", "hash64 of other sites that link to URLs of the pattern, a few at most"),
    ("listed", pl.Boolean, "", "a sitemap names a URL of the pattern"),
    ("segments", SEGMENTS, "", "of a shape: its segments that are literals, or may become one, and how many known URLs "
                               "have each"),
    ("trap_score", pl.Float64, "", "log of how much likelier the pages judged are of a trap than not: see core/traps; "
                                     "of a parameter: the pairs, of one that does not matter (core/parameters)"),
    ("action", pl.String, "", "what is done about the pattern: none, throttled, blocked, cleared; about a parameter: "
                                 "dropped"),
    ("acted_at", TIME, "UTC", "when that began"),
    ("probe_at", TIME, "UTC", "when another share of a blocked pattern is let through, to look again"),
    ("released_at", TIME, "UTC", "when a person released the pattern"),
    ("examples", pl.List(pl.String), "", "latest pages that were judged worthless, and why; of a parameter pairs"),
    ("bare_count", pl.Int64, "pairs", "of a parameter: equal pairs of which one URL lacks it"),
    ("probed_url", pl.String, "", "of a folder: a URL in it that nobody can have made, asked for to see the answer"),
    ("answer", pl.String, "", "what came of it: not found, page, redirect, other; null: not asked yet"),
    ("answer_words", pl.List(pl.Int32), "", "if that was a page, hashes of its distinct words"),
    # Templates.
    ("counted_count", pl.Int64, "pages", "pages of the host that were counted, each visit once"),
    ("blocks", pl.List(pl.Int32), "", "short blocks that stood on several of them, by a hash of 32 bits"),
    ("block_counts", pl.List(pl.Int32), "pages", "of each block, how many pages had it"),
    ("block_classes", pl.List(pl.Int32), "", "of each block, which of 32 classes of URLs had it, a bit for each"),
    ("block_first", pl.List(pl.Int32), "pages", "of each block, how many pages had been counted before it was seen"),
    ("block_since", pl.List(pl.Int32), "pages", "of each block, at which count it became template; 0: it is not"),
    ("moving_blocks", pl.List(pl.Int32), "", "hashes of blocks that came or went between readings of a page"),
    ("moving_came", pl.List(pl.Int32), "readings", "how often each came"),
    ("moving_went", pl.List(pl.Int32), "readings", "how often each went"),
    ("moving_stayed", pl.List(pl.Int32), "readings", "how often each stayed, after that"),
    ("moving_since", pl.List(pl.Int32), "pages", "of each, at which count it was found to rotate; 0: it was not"),
    # Rounds and leases.
    ("epoch", pl.Int64, "", "how often the bucket's lease has been taken; fences late writers"),
    ("deadline_at", TIME, "UTC", "until when the lease is held unless renewed"),
    ("released", pl.Boolean, "", "the holder gave the lease back in order"),
    ("seed", pl.Int64, "", "seed of the round's draws, so that a selection can be repeated"),
    ("selected_count", pl.Int64, "URLs", "URLs on the fetch list; equals the sum of `outcomes`"),
    ("outcomes", TALLY, "", "selected URLs by outcome"),
    ("refused", TALLY, "", "links not admitted, by reason"),
    ("left_out", TALLY, "", "due URLs not selected, by reason"),
    ("request_count", pl.Int64, "requests", "requests sent, whatever their cause"),
    ("page_count", pl.Int64, "pages", "pages stored"),
    ("content_count", pl.Int64, "contents", "contents stored: fewer than pages by copies, and by what is not kept"),
    ("links_read_count", pl.Int64, "links", "links read from the log: admitted plus refused"),
    ("admitted_count", pl.Int64, "URLs", "links that became frontier rows"),
    ("links_to", pl.List(pl.Int32), "links", "links this round wrote, by target bucket"),
    ("links_seen", pl.List(pl.Int64), "", "per source bucket, the last round whose links were admitted here"),
    ("orders_seen", pl.Int64, "", "the last order applied here"),
    ("due_count", pl.Int64, "URLs", "due at the end of the round"),
    ("next_due_at", TIME, "UTC", "when the next URL of the bucket falls due"),
    ("seen_asked_count", pl.Int64, "URLs", "linked URLs that the bucket's Bloom filter was asked about; 0 without one"),
    ("seen_maybe_count", pl.Int64, "URLs", "of these, how many it could not rule out: the frontier was asked"),
    ("seen_false_count", pl.Int64, "URLs", "of these, how many were new: its false positives"),
    ("plan_s", pl.Float64, "s", "reading state, admitting links and choosing the fetch list"),
    ("fetch_s", pl.Float64, "s", "asking hosts"),
    ("price", pl.Float64, "days", "what a visit had to be worth: days of freshness of a page of full importance; null: "
                                  "no budget has bound yet"),
    ("budget_left", pl.Float64, "pages", "what the bucket had left of the crawl's budget; null: there is none"),
    ("note", pl.String, "", "the round in words when nothing was fetched: nothing due, hosts waiting"),
)  # fmt: skip

LINKS = Table(
    "links", "log", ("round", "url_hash", "source_hash", "kind"), (), ("target_bucket", "host"),
    "a URL addressed to the bucket that owns its site",
    ("target_bucket", "source_bucket", "round", "url", "url_hash", "host", "source_url", "source_hash", "kind",
     "nofollow", "depth", "hops", "tag", "lastmod_at", "said_rate", "cash"),
)  # fmt: skip
FETCHES = Table(
    "fetches", "log", ("request_id",), ("bucket",), ("host", "started_at"),
    "one request, whatever its cause",
    ("bucket", "round", "request_id", "host", "origin", "url", "url_hash", "cause", "started_at", "ended_at",
     "first_byte_s", "address", "http_status", "outcome", "reason", "content_type", "wire_bytes", "body_bytes",
     "etag", "last_modified", "retry_after_s", "location", "gap_s", "robots_id", "policy_id", "user_agent",
     "worker"),
)  # fmt: skip
PAGES = Table(
    "pages", "log", ("url_hash", "round"), ("bucket", "month"), ("host", "url"),
    "one stored page",
    ("bucket", "month", "round", "url", "url_hash", "host", "fetched_at", "content_type", "charset", "title", "lang",
     "word_count", "text_hash", "body_hash", "content_round", "body_bytes", "link_count", "canonical_url", "noindex",
     "nofollow", "robots_directives", "usage", "tag", "token_count", "main_hash", "simhash", "minhash",
     "removed_blocks", "removed_share", "noise_share", "thin", "soft404"),
)  # fmt: skip
CONTENTS = Table(
    "contents", "log", ("round", "body_hash", "charset"), ("month",), ("round",),
    "one content: a body and its text, stored once for all pages that have it",
    ("bucket", "month", "round", "body_hash", "charset", "body_bytes", "body", "text"),
)  # fmt: skip
ORDERS = Table(
    "orders", "log", ("order", "kind", "url", "host", "site", "of_bucket", "policy_key"), (), (),
    "what a person asked",
    ("order", "ordered_at", "ordered_by", "kind", "url", "host", "site", "tag", "topic", "region", "band", "policy_id",
     "policy_toml", "policy_key", "policy_value", "pattern", "of_bucket", "visited_before", "request_key",
     "request_hash"),
)  # fmt: skip
ROBOTS = Table(
    "robots", "log", ("robots_id",), ("bucket",), ("origin",),
    "one robots.txt answer, kept so that every verdict can be judged again",
    ("bucket", "round", "robots_id", "host", "origin", "fetched_at", "expires_at", "http_status", "state", "reason",
     "body"),
)  # fmt: skip
FRONTIER = Table(
    "frontier", "state", ("url_hash",), ("bucket", "layer", "layout", "part"), ("host", "url"),
    "one known URL",
    ("bucket", "layer", "layout", "part", "round", "url_hash", "url", "host", "status", "outcome", "reason", "band",
     "score", "depth", "hops", "kind", "tag", "source_hash", "found_at", "due_at", "attempts", "gone_count",
     "visited_at", "evidence_a", "evidence_b", "lastmod_at", "moved_count", "said_rate"),
)  # fmt: skip
HOSTS = Table(
    "hosts", "state", ("host",), ("bucket", "layer", "layout"), ("host",),
    "one host",
    ("bucket", "layer", "layout", "round", "host", "site", "region", "seeded", "paused", "next_allowed_at",
     "crawl_delay_s", "download_s", "backoff_s", "aside_s", "troubled_at", "calm_count", "failures", "robots",
     "known_count", "parked_count", "fetched_count", "day", "day_count", "addresses", "linking_sites",
     "linking_site_count", "texts", "listed_until_at", "validators_checked", "validators_lied", "sitemap_dates",
     "page_dates", "rate_sum",
     "rate_count", "said_wrong_count", "found_at"),
)  # fmt: skip
CHANGE_FREQUENCY = Table(
    "change_frequency", "state", ("url_hash",), ("bucket", "layer", "layout"), ("host", "url_hash"),
    "one fetched URL",
    ("bucket", "layer", "layout", "round", "url_hash", "host", "visit_count", "change_count", "cosmetic_count",
     "evidence_a", "evidence_b", "rate", "change_expected", "fetched_at", "changed_at", "text_hash", "main_hash",
     "main_sketch",
     "template_count", "main_blocks", "interval_s", "weight", "etag", "last_modified", "text_read_at"),
)  # fmt: skip
TEMPLATES = Table(
    "templates", "state", ("host",), ("bucket", "layer", "layout"), ("host",),
    "one host of ten pages or more, or of blocks that move: which short blocks of text stand on many pages, which come "
    "and go",
    ("bucket", "layer", "layout", "round", "host", "counted_count", "blocks", "block_counts", "block_classes",
     "block_first", "block_since", "moving_blocks", "moving_came", "moving_went", "moving_stayed", "moving_since"),
)  # fmt: skip
CLUSTERS = Table(
    "clusters", "derived", ("url_hash",), ("layer",), ("cluster_id", "url_hash"),
    "one page and the pages that it is nearly the same as",
    ("layer", "clustering", "url_hash", "url", "host", "main_hash", "cluster_id", "cluster_before", "similarity",
     "canonical", "reason", "canonical_url", "score", "found_at", "doubts", "misses", "since_at"),
)  # fmt: skip
MERGES = Table(
    "merges", "log", ("clustering", "cluster_before"), (), ("clustering", "cluster_before"),
    "one cluster whose representative turned out to be nearly the same as another's",
    ("clustering", "cluster_before", "cluster_id", "similarity", "merged_at"),
)  # fmt: skip
PATTERNS = Table(
    "patterns", "state", ("host", "pattern"), ("bucket", "layer", "layout"), ("host", "pattern"),
    "one URL pattern of a host: what its pages were worth, and what is done about it",
    ("bucket", "layer", "layout", "round", "host", "pattern", "shape", "known_count", "grown_count",
     "trial_count", "exact_count",
     "near_count", "thin_count", "soft404_count", "failed_count", "out_link_count", "own_link_count", "step_link_count",
     "new_url_count", "linked_from", "listed", "trap_score", "action", "acted_at", "probe_at", "released_at",
     "examples", "segments", "bare_count", "probed_url", "answer", "answer_words", "location"),
)  # fmt: skip
RANKS = Table(
    "ranks", "derived", ("url_hash",), (), ("bucket", "url_hash"),
    "one known URL that a link counts for: how important it is by the links that lead to it",
    ("bucket", "ranking", "url_hash", "page_rank"),
)  # fmt: skip
HOST_RANKS = Table(
    "host_ranks", "derived", ("host",), (), ("bucket", "host"),
    "one host with known URLs: its rank, and how many others link to it",
    ("bucket", "ranking", "host", "site", "known_count", "rank_sum", "linking_host_count", "linking_site_count"),
)  # fmt: skip
HOST_GRAPH = Table(
    "host_graph", "derived", ("source_host", "host"), (), ("host", "source_host"),
    "one host that links to another",
    ("ranking", "source_host", "host", "host_link_count"),
)  # fmt: skip
ROUNDS = Table(
    "rounds", "ledger", ("bucket", "round"), ("bucket",), ("round",),
    "one round of one bucket; writing it is the round's commit",
    ("bucket", "round", "epoch", "worker", "policy_id", "seed", "started_at", "ended_at", "selected_count",
     "outcomes", "left_out", "links_read_count", "admitted_count", "refused", "request_count", "page_count",
     "content_count", "wire_bytes", "links_to", "links_seen", "orders_seen", "ranks_seen",
     "known_count", "parked_count", "due_count",
     "next_due_at", "seen_asked_count", "seen_maybe_count", "seen_false_count", "price",
     "budget_left", "plan_s", "fetch_s", "note"),
)  # fmt: skip
LEASES = Table(
    "leases", "control", ("bucket",), (), ("bucket",),
    "the right to one bucket",
    ("bucket", "epoch", "worker", "deadline_at", "released"),
)  # fmt: skip
MODULE_FAILURES = Table(
    "module_failures", "log", ("module", "url_hash", "round"), ("bucket",), ("module", "host"),
    "one result of a module that did not come to be, and why",
    ("bucket", "round", "module", "phase", "url", "url_hash", "host", "fetched_at", "reason"),
)  # fmt: skip
MODULE_TABLES = Table(
    "module_tables", "control", ("table_name",), (), ("table_name",),
    "a table that a module writes: in the lake since the first worker that used the module",
    ("table_name", "module", "one_row_is", "declared"),
)  # fmt: skip

ERASURES = Table(
    "erasures", "log", ("erasure", "order", "table_name"), (), ("erasure",),
    "what one erasure did to one table, for one order or (no order) because the time of its rows was over",
    ("erasure", "order", "table_name", "erased_at", "worker", "until_at", "gone_count", "changed_count", "file_count",
     "file_bytes", "version", "searched_count", "searched_bytes", "left_count", "mention_count"),
)  # fmt: skip

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        LINKS, FETCHES, PAGES, CONTENTS, ORDERS, ROBOTS, FRONTIER, HOSTS, CHANGE_FREQUENCY, TEMPLATES, PATTERNS,
        CLUSTERS, MERGES, RANKS, HOST_RANKS, HOST_GRAPH, ROUNDS, LEASES,
        MODULE_FAILURES, MODULE_TABLES, ERASURES,
    )
}  # fmt: skip
