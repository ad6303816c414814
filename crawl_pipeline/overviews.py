"""Views that sum up what a page is, how fresh it is believed to be, and how each host stands: SQL text and columns.

What is judged of a host here (its state, until when) is judged nowhere else in SQL: reports and alarms read
`hosts_now`. The budget is the policy's, as its last snapshot in `orders` has it; what trust allows of it is left to
`crawl explain`.
"""

from crawl_pipeline.core.outcome import OUTCOMES
from crawl_pipeline.core.tables import COLUMNS

_TROUBLE = ", ".join(f"'{name}'" for name, meaning in OUTCOMES.items() if meaning.host_trouble)

# Every robots.txt of the host that is in force forbids everything: until the first may be read again.
CLOSED = """
    len([r for r in robots if r.expires_at > as_of() and r.state = 'disallow_all']) > 0
        and len([r for r in robots if r.expires_at > as_of() and r.state <> 'disallow_all']) = 0
"""
ROBOTS_AT = "list_min([r.expires_at for r in robots if r.expires_at > as_of()])"

PAGE_META = """
with newest as (
    select url_hash, url, host, body_hash, simhash, body_bytes, fetched_at
    from pages
    qualify row_number() over (partition by url_hash order by round desc) = 1
),
answered as (
    select url_hash, max_by(http_status, ended_at) as http_status
    from fetches where cause = 'page' and http_status is not null group by url_hash
)
select p.url_hash, p.url, p.host, p.body_hash as content_hash, p.simhash, a.http_status,
    greatest(c.fetched_at, p.fetched_at) as fetched_at, p.body_bytes as content_length,
    coalesce(c.change_count, 0) as change_count, f.due_at as next_recrawl_at
from newest p
left join answered a using (url_hash)
left join change_frequency c using (url_hash)
left join frontier f using (url_hash)
"""

PAGE_META_COLUMNS = {
    "url_hash": "hash64 of the URL: each stands here once",
    "url": COLUMNS["url"].meaning,
    "host": COLUMNS["host"].meaning,
    "content_hash": "BLAKE2b of the decoded body of the newest stored version, 16 bytes: equal for exact copies",
    "simhash": COLUMNS["simhash"].meaning,
    "http_status": "status code of the last answer, 304 too; null if requests of its age are not kept",
    "fetched_at": "when it was last read, or told to be unchanged [UTC]",
    "content_length": "size of the decoded body of that version [bytes]",
    "change_count": COLUMNS["change_count"].meaning,
    "next_recrawl_at": "when it falls due again; null: not by itself [UTC]",
}

# A rate is believed to lie around its mean by a Gamma law of shape 0.4 and what visits add (core.prior), so that the
# chance of no change for t days is (1 + t / b) ^ -a. Before a second visit the mean is that of the host, or 0.05 a day.
FRESHNESS = """
with believed as (
    select f.url_hash, f.url, f.host, f.tag, coalesce(f.score, 0) * coalesce(c.weight, 1) as importance,
        greatest(0.4 + coalesce(c.evidence_a, 0), 0.05) as shape,
        coalesce(c.rate, h.rate_sum / nullif(h.rate_count, 0), 0.05) as rate,
        greatest(date_diff('second', c.fetched_at, as_of()), 0) / 86400.0 as age_days,
        greatest(date_diff('second', f.due_at, as_of()), 0) / 86400.0 as late_days,
        c.visit_count as visits, c.change_count as changes
    from change_frequency c
    join frontier f on f.url_hash = c.url_hash and f.status in ('fetched', 'orphan')
    semi join pages p on p.url_hash = c.url_hash
    left join hosts h on h.host = f.host
)
select url_hash, url, host, tag, pow(1 + age_days * rate / shape, -shape) as freshness, importance, rate, shape,
    age_days, late_days, visits, changes
from believed
"""

FRESHNESS_COLUMNS = {
    "url_hash": "hash64 of the URL; join it with pages.url_hash, frontier.url_hash",
    "url": COLUMNS["url"].meaning,
    "host": COLUMNS["host"].meaning,
    "tag": COLUMNS["tag"].meaning,
    "freshness": "chance that the stored page is still as it is on the web",
    "importance": "its score, less for copies: by it freshness is weighted",
    "rate": "changes a day that are believed; that of its host before a second visit",
    "shape": "how certain that is: shape of the Gamma law around it",
    "age_days": "since the last visit that read the page or was told that it is unchanged [days]",
    "late_days": "by how much its next visit is late; 0: it is not due [days]",
    "visits": COLUMNS["visit_count"].meaning,
    "changes": COLUMNS["change_count"].meaning,
}

TROUBLE_STATES = (
    "paused by an order", "robots.txt unreachable or not to be read", "put aside after failures", "backing off",
    "failing",
)  # fmt: skip

HOSTS_NOW = f"""
with stored as (
    select host, count(distinct url_hash) as pages from pages group by host
),
urls as (
    select host, count(*) as known, count(*) filter (status = 'waiting') as waiting,
        count(*) filter (status = 'parked') as parked,
        count(*) filter (due_at <= as_of() and status not in ('parked', 'dead', 'forgotten')) as due
    from frontier group by host
),
asked as (
    select host, max(started_at) as last_request_at,
        max_by(outcome || coalesce(': ' || reason, ''), ended_at) filter (outcome in ({_TROUBLE})) as last_trouble,
        max(ended_at) filter (outcome in ({_TROUBLE})) as last_trouble_at
    from fetches group by host
),
policy as (
    select max_by(policy_toml, "order") as policy_toml from orders where kind = 'policy'
),
judged as (
    select *, coalesce(next_allowed_at > as_of(), false) as is_waited_for, {CLOSED} as is_closed,
        {ROBOTS_AT} as robots_at, if(day = as_of()::date, coalesce(day_count, 0), 0) as today
    from hosts
)
select h.bucket, h.host, h.site, h.region, coalesce(s.pages, 0) as pages, coalesce(u.known, 0) as known,
    coalesce(u.waiting, 0) as waiting, coalesce(u.due, 0) as due, coalesce(u.parked, 0) as parked,
    case
        when h.paused then '{TROUBLE_STATES[0]}'
        when h.is_closed then '{TROUBLE_STATES[1]}'
        when h.aside_s > 0 and h.is_waited_for then '{TROUBLE_STATES[2]}'
        when h.backoff_s > 0 and h.is_waited_for then '{TROUBLE_STATES[3]}'
        when h.failures > 0 then '{TROUBLE_STATES[4]}'
        when h.is_waited_for then 'rests'
        when coalesce(u.due, 0) = 0 then 'nothing is due'
        else 'may be asked'
    end as state,
    state in ({", ".join(f"'{state}'" for state in TROUBLE_STATES)}) as in_trouble,
    case
        when h.paused then null
        when h.is_closed then h.robots_at
        when h.is_waited_for then h.next_allowed_at
    end as until_at,
    coalesce(h.failures, 0) as failures, h.crawl_delay_s, coalesce(h.backoff_s, 0) as backoff_s,
    coalesce(h.aside_s, 0) as aside_s, a.last_request_at, a.last_trouble, a.last_trouble_at,
    h.today as asked_today, promised(p.policy_toml, h.host).fetches_per_day as allowed_a_day
from judged h cross join policy p
left join stored s on s.host = h.host left join urls u on u.host = h.host left join asked a on a.host = h.host
"""

HOSTS_NOW_COLUMNS = {
    "bucket": COLUMNS["bucket"].meaning,
    "host": "host name, without port",
    "site": COLUMNS["site"].meaning,
    "region": COLUMNS["region"].meaning,
    "pages": "its URLs with a stored page",
    "known": "its known URLs",
    "waiting": "of these, those that wait to be fetched for the first time, or again after trouble",
    "due": "of these, those that may be asked for now as far as they are concerned, visits again too",
    "parked": "of these, those beyond what trust gives of its budget",
    "state": "the first that holds of: paused, robots.txt forbids everything, put aside, backing off, failing, rests "
             "(between two requests), nothing is due, may be asked",
    "in_trouble": "the state is one of the first five",
    "until_at": "when the state may end by itself; null: when somebody says so, or at once [UTC]",
    "failures": COLUMNS["failures"].meaning,
    "crawl_delay_s": f"{COLUMNS['crawl_delay_s'].meaning} [s]",
    "backoff_s": f"{COLUMNS['backoff_s'].meaning} [s]",
    "aside_s": f"{COLUMNS['aside_s'].meaning} [s]",
    "last_request_at": "when the last request to it started, robots.txt too [UTC]",
    "last_trouble": "outcome, and reason, of the last request that counted against it",
    "last_trouble_at": "when that ended [UTC]",
    "asked_today": "pages asked for on this UTC day",
    "allowed_a_day": "pages that the last policy allows in a day; of hosts that no seed names, trust may give less",
}  # fmt: skip
